package view

// Launch is the form for a new run.
type Launch struct {
	Shell
	Preset  string
	Presets []string
	Main    []Setting // the settings that matter
	Groups  []Group   // all others
	Cost    []Cost    // what a step does, for valid settings
	YAML    string    // the resulting configuration, empty while invalid
	Faults  []Fault   // faults that belong to no setting of the form
	Invalid int       // faults in all
}

// Group is a part of the configuration.
type Group struct {
	Name     string
	Settings []Setting
	Open     bool // has a fault or a changed value
}

// Setting is one form control. Key is the dotted name, the control's name and id.
type Setting struct {
	Key     string
	Label   string
	Type    string // "text", "integer", "number" or "boolean"
	Value   string
	Preset  string // the preset's value, shown where it differs
	Choices []string
	Help    string
	Fault   string
}

// Changed reports whether the value is not the preset's.
func (s Setting) Changed() bool { return s.Value != s.Preset }

// Fault is an invalid setting.
type Fault struct{ Field, Message string }

// Cost is a number of things that one step makes.
type Cost struct{ Count, Text string }
