// Package config reads and edits run configurations: YAML files and presets, overrides such as "gspo.clip_low=3e-4", and
// the list of fields that a form shows. spec.Config says what the fields mean to the trainer.
package config
