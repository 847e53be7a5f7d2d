package answer

import (
	"strconv"
	"strings"
)

// dimension counts powers of the base quantities: metre, kilogram, second, ampere, kelvin, mole, then angle, money, Celsius,
// Fahrenheit, dalton, base pair and the bare "unit". Celsius and Fahrenheit are not converted.
type dimension [13]int8

// unit is a unit of measurement: how many base units it is, and its symbol.
type unit struct {
	factor float64
	dim    dimension
	symbol string
}

const (
	metre = iota
	kilogram
	second
	ampere
	kelvin
	mole
	angle
	money
	celsius
	fahrenheit
	dalton
	basePair
	bare
)

func dims(pairs ...int8) (d dimension) {
	for i := 0; i < len(pairs); i += 2 {
		d[pairs[i]] = pairs[i+1]
	}
	return d
}

// siBase are the symbols that take a metric prefix.
func siBase(symbol string) (unit, bool) {
	var factor float64 = 1
	var d dimension
	switch symbol {
	case "m":
		d = dims(metre, 1)
	case "g":
		factor, d = 1e-3, dims(kilogram, 1)
	case "s":
		d = dims(second, 1)
	case "A":
		d = dims(ampere, 1)
	case "K":
		d = dims(kelvin, 1)
	case "mol":
		d = dims(mole, 1)
	case "M":
		factor, d = 1e3, dims(mole, 1, metre, -3)
	case "L", "l":
		symbol, factor, d = "L", 1e-3, dims(metre, 3)
	case "Hz":
		d = dims(second, -1)
	case "N":
		d = dims(kilogram, 1, metre, 1, second, -2)
	case "Pa":
		d = dims(kilogram, 1, metre, -1, second, -2)
	case "J":
		d = dims(kilogram, 1, metre, 2, second, -2)
	case "eV":
		factor, d = 1.602176634e-19, dims(kilogram, 1, metre, 2, second, -2)
	case "cal":
		factor, d = 4.184, dims(kilogram, 1, metre, 2, second, -2)
	case "W":
		d = dims(kilogram, 1, metre, 2, second, -3)
	case "V":
		d = dims(kilogram, 1, metre, 2, second, -3, ampere, -1)
	case "Ω":
		d = dims(kilogram, 1, metre, 2, second, -3, ampere, -2)
	case "Da":
		d = dims(dalton, 1)
	case "bp":
		d = dims(basePair, 1)
	default:
		return unit{}, false
	}
	return unit{factor, d, symbol}, true
}

// otherUnit are symbols and words, in lower case and singular, without prefixes.
func otherUnit(word string) (unit, bool) {
	switch word {
	case "in", "inch", "inche":
		return unit{0.0254, dims(metre, 1), "in"}, true
	case "ft", "foot", "feet":
		return unit{0.3048, dims(metre, 1), "ft"}, true
	case "yd", "yard":
		return unit{0.9144, dims(metre, 1), "yd"}, true
	case "mi", "mile":
		return unit{1609.344, dims(metre, 1), "mi"}, true
	case "lb", "pound":
		return unit{0.45359237, dims(kilogram, 1), "lb"}, true
	case "oz", "ounce":
		return unit{0.028349523125, dims(kilogram, 1), "oz"}, true
	case "ton", "tonne":
		return unit{1000, dims(kilogram, 1), "t"}, true
	case "sec":
		return unit{1, dims(second, 1), "s"}, true
	case "min", "minute":
		return unit{60, dims(second, 1), "min"}, true
	case "h", "hr", "hour":
		return unit{3600, dims(second, 1), "h"}, true
	case "day":
		return unit{86400, dims(second, 1), "day"}, true
	case "week":
		return unit{604800, dims(second, 1), "week"}, true
	case "month":
		return unit{2629746, dims(second, 1), "month"}, true
	case "yr", "year":
		return unit{31556952, dims(second, 1), "year"}, true
	case "mph":
		return unit{0.44704, dims(metre, 1, second, -1), "mph"}, true
	case "atm":
		return unit{101325, dims(kilogram, 1, metre, -1, second, -2), "atm"}, true
	case "°", "deg", "degree":
		return unit{0.017453292519943295, dims(angle, 1), "°"}, true
	case "rad", "radian":
		return unit{1, dims(angle, 1), "rad"}, true
	case "°c", "celsius", "degc":
		return unit{1, dims(celsius, 1), "°C"}, true
	case "°f", "fahrenheit", "degf":
		return unit{1, dims(fahrenheit, 1), "°F"}, true
	case "$", "usd", "dollar":
		return unit{1, dims(money, 1), "$"}, true
	case "cent":
		return unit{0.01, dims(money, 1), "cent"}, true
	case "unit":
		return unit{1, dims(bare, 1), "unit"}, true
	}
	return unit{}, false
}

// longName maps the written-out names of metric units to their symbols.
func longName(word string) (string, bool) {
	switch word {
	case "meter", "metre":
		return "m", true
	case "gram":
		return "g", true
	case "second":
		return "s", true
	case "ampere", "amp":
		return "A", true
	case "kelvin":
		return "K", true
	case "mole":
		return "mol", true
	case "liter", "litre":
		return "L", true
	case "hertz":
		return "Hz", true
	case "newton":
		return "N", true
	case "pascal":
		return "Pa", true
	case "joule":
		return "J", true
	case "calorie":
		return "cal", true
	case "watt":
		return "W", true
	case "volt":
		return "V", true
	case "ohm":
		return "Ω", true
	case "dalton":
		return "Da", true
	}
	return "", false
}

// prefixes are metric prefixes: symbol, name, power of ten.
func prefixes() [9]struct {
	symbol, name string
	factor       float64
} {
	return [9]struct {
		symbol, name string
		factor       float64
	}{{"p", "pico", 1e-12}, {"n", "nano", 1e-9}, {"µ", "micro", 1e-6}, {"u", "micro", 1e-6}, {"m", "milli", 1e-3},
		{"c", "centi", 1e-2}, {"k", "kilo", 1e3}, {"M", "mega", 1e6}, {"G", "giga", 1e9}}
}

// lookUnit finds a single unit by symbol, by name, or by either with a metric prefix.
func lookUnit(word string) (unit, bool) {
	if u, ok := siBase(word); ok {
		return u, true
	}
	lower := strings.ToLower(word)
	if u, ok := otherUnit(lower); ok {
		return u, true
	}
	singular := strings.TrimSuffix(lower, "s")
	if len(singular) > 1 {
		if u, ok := otherUnit(singular); ok {
			return u, true
		}
	}
	if symbol, ok := longName(singular); ok {
		return siBase(symbol)
	}
	if symbol, ok := longName(lower); ok { // hertz
		return siBase(symbol)
	}
	for _, p := range prefixes() {
		base, ok := unit{}, false
		if rest, has := strings.CutPrefix(word, p.symbol); has {
			base, ok = siBase(rest)
		}
		if rest, has := strings.CutPrefix(lower, p.name); !ok && has {
			symbol, named := longName(strings.TrimSuffix(rest, "s"))
			if !named {
				symbol, named = longName(rest)
			}
			if named {
				base, ok = siBase(symbol)
			}
		}
		if ok {
			symbol := strings.Replace(p.symbol, "u", "µ", 1)
			return unit{p.factor * base.factor, base.dim, symbol + base.symbol}, true
		}
	}
	// Case is free where only one reading is left.
	switch lower {
	case "cm", "km", "kg", "mm":
		if word != lower {
			return lookUnit(lower)
		}
	case "hz", "khz":
		return lookUnit(strings.TrimSuffix(lower, "hz") + "Hz")
	}
	return unit{}, false
}

// parseUnit reads all of s as a unit: factors joined by spaces, * or /, with powers. joined is set where no space stood
// between the number and s: a lone capital is then a label, as in panel 3B, unless it is V or W.
func parseUnit(s string, joined bool) (unit, bool) {
	s = strings.TrimSpace(s)
	if s == "" || len(s) > 60 || joined && len(s) == 1 && s[0] >= 'A' && s[0] <= 'Z' && s != "V" && s != "W" {
		return unit{}, false
	}
	s = strings.NewReplacer("degrees Celsius", "°C", "degrees celsius", "°C", "degree Celsius", "°C", "degrees Fahrenheit", "°F",
		"degrees fahrenheit", "°F", "° C", "°C", "° F", "°F", " per ", "/", " / ", "/", " * ", "*").Replace(s)
	total := unit{factor: 1}
	sign, power := int8(1), int8(1)
	for part := range strings.FieldsFuncSeq(strings.ReplaceAll(s, "/", " / "), func(r rune) bool { return r == ' ' || r == '*' }) {
		switch strings.ToLower(part) {
		case "/":
			if sign < 0 || total.symbol == "" {
				return unit{}, false
			}
			sign = -1
			continue
		case "square", "sq", "sq.", "squared":
			power = 2
			continue
		case "cubic":
			power = 3
			continue
		}
		u, ok := powered(part, power)
		if !ok {
			return unit{}, false
		}
		total.times(u, sign)
		power = 1
	}
	return total, total.symbol != "" && power == 1
}

// powered reads one factor with its power: cm^2, cm2, s^-1.
func powered(part string, power int8) (unit, bool) {
	name, exp, has := strings.Cut(part, "^")
	if !has {
		if end := len(part) - 1; end > 0 && (part[end] == '2' || part[end] == '3') {
			name, exp = part[:end], part[end:]
		}
	}
	switch exp {
	case "":
		if has {
			return unit{}, false
		}
	case "2", "3":
		power *= int8(exp[0] - '0')
	case "-1", "-2", "-3":
		power *= -int8(exp[1] - '0')
	default:
		return unit{}, false
	}
	u, ok := lookUnit(name)
	if !ok {
		return unit{}, false
	}
	raised := unit{factor: 1, symbol: u.symbol}
	for range max(power, -power) {
		if power > 0 {
			raised.factor *= u.factor
		} else {
			raised.factor /= u.factor
		}
	}
	for i, d := range u.dim {
		raised.dim[i] = d * power
	}
	if power != 1 {
		raised.symbol += "^" + strconv.Itoa(int(power))
	}
	return raised, true
}

func (u *unit) times(v unit, sign int8) {
	if sign < 0 {
		u.factor /= v.factor
		u.symbol += "/" + v.symbol
	} else {
		u.factor *= v.factor
		u.symbol = strings.TrimPrefix(u.symbol+"*"+v.symbol, "*")
	}
	for i, d := range v.dim {
		u.dim[i] += sign * d
	}
}
