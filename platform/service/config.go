package service

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"

	"muster/platform/nearest"
)

// Validator is a configuration that can say what is wrong with itself, all of it at once (errors.Join).
type Validator interface{ Validate() error }

// ConfigSource says where [LoadConfig] reads.
type ConfigSource struct {
	// File is the path of a YAML file; none when empty.
	File string
	// EnvPrefix starts the names of environment variables; default "MUSTER_".
	EnvPrefix string
	// Environ is the environment as "NAME=value"; nil means os.Environ().
	Environ []string
	// EnvOther lists variables that start with the prefix and are no configuration, so that they are not reported.
	EnvOther []string
	// Flags holds the values of the command-line flags that were set, by key ("section.key").
	Flags map[string]any
}

// LoadConfig overlays the configuration that target points to, whose values are the defaults, first by the YAML file,
// then by the environment, then by flags, and validates it. Keys are the fields' `koanf` tags joined by dots; the
// variable of section.some_key is MUSTER_SECTION_SOME_KEY. Text is converted to the field's type: durations ("5s"),
// numbers, booleans, lists ("a,b") and everything with UnmarshalText.
//
// A key in the file or the flags that the configuration does not have is an error which names the nearest key it has.
// An unknown variable is no error, because the environment belongs to others too: it is returned in warnings.
func LoadConfig(target Validator, src ConfigSource) (warnings []string, err error) {
	if src.EnvPrefix == "" {
		src.EnvPrefix = "MUSTER_"
	}
	if src.Environ == nil {
		src.Environ = os.Environ()
	}
	known, err := configKeys(target)
	if err != nil {
		return nil, err
	}
	k := koanf.New(".")
	if src.File != "" {
		content, err := os.ReadFile(src.File)
		if err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
		if err := k.Load(rawbytes.Provider(content), yaml.Parser()); err != nil {
			return nil, fmt.Errorf("read configuration %s: %w", src.File, err)
		}
		if err := refuseUnknown(k.Keys(), known); err != nil {
			return nil, fmt.Errorf("configuration %s: %w", src.File, err)
		}
	}
	for key, value := range k.All() { // null, and an empty section, mean: not set.
		if value == nil {
			k.Delete(key)
		}
	}
	env, warnings, err := envValues(src, known)
	if err != nil {
		return nil, err
	}
	if err := refuseUnknown(slices.Sorted(maps.Keys(src.Flags)), known); err != nil {
		return nil, fmt.Errorf("flags: %w", err)
	}
	for _, layer := range []map[string]any{env, src.Flags} {
		if err := k.Load(confmap.Provider(layer, "."), nil); err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
	}
	if err := k.UnmarshalWithConf("", target, koanf.UnmarshalConf{DecoderConfig: decoding()}); err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if err := target.Validate(); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return warnings, nil
}

// configKeys maps each key that target has to whether everything below it is one too (a map's keys are free).
func configKeys(target any) (map[string]bool, error) {
	v := reflect.ValueOf(target)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("configuration: want a pointer to a struct, not %T", target)
	}
	keys := make(map[string]bool)
	if err := addKeys(keys, "", v.Elem().Type()); err != nil {
		return nil, err
	}
	return keys, nil
}

func addKeys(keys map[string]bool, prefix string, t reflect.Type) error {
	text := reflect.TypeFor[encoding.TextUnmarshaler]()
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("koanf"), ",")
		switch {
		case name == "-" || !f.IsExported():
			continue
		case options == "squash":
			if err := addKeys(keys, prefix, f.Type); err != nil {
				return err
			}
			continue
		case name == "":
			return fmt.Errorf("configuration: field %s of %s has no koanf tag", f.Name, t)
		}
		key := prefix + name
		if f.Type.Kind() == reflect.Struct && !reflect.PointerTo(f.Type).Implements(text) {
			if err := addKeys(keys, key+".", f.Type); err != nil {
				return err
			}
			continue
		}
		keys[key] = f.Type.Kind() == reflect.Map
	}
	return nil
}

func refuseUnknown(keys []string, known map[string]bool) error {
	var errs []error
	for _, key := range keys {
		if !isKnown(key, known) {
			errs = append(errs, fmt.Errorf("unknown key %q%s", key, meant(key, known)))
		}
	}
	return errors.Join(errs...)
}

func isKnown(key string, known map[string]bool) bool {
	for k, open := range known {
		// The last case is an empty section; with a value in it, decoding refuses it with a better reason.
		if key == k || open && strings.HasPrefix(key, k+".") || strings.HasPrefix(k, key+".") {
			return true
		}
	}
	return false
}

// meant names the key or variable that somebody may have meant, if any.
func meant[V any](word string, known map[string]V) string {
	if n, ok := nearest.Name(word, slices.Sorted(maps.Keys(known))); ok {
		return "; did you mean " + strconv.Quote(n) + "?"
	}
	return ""
}

// envValues finds the variable of each known key. Going from keys to variables, and not back, is what lets both keys
// and sections contain underscores; two keys with the same variable are an error.
func envValues(src ConfigSource, known map[string]bool) (values map[string]any, warnings []string, err error) {
	names := make(map[string]string, len(known))
	for _, key := range slices.Sorted(maps.Keys(known)) {
		name := src.EnvPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
		if other, taken := names[name]; taken {
			return nil, nil, fmt.Errorf("configuration: keys %q and %q share the variable %s", other, key, name)
		}
		names[name] = key
	}
	values = make(map[string]any)
	for _, entry := range src.Environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, src.EnvPrefix) || slices.Contains(src.EnvOther, name) {
			continue
		}
		if key, ok := names[name]; ok {
			values[key] = value
			continue
		}
		warnings = append(warnings, "unknown variable "+name+meant(name, names))
	}
	slices.Sort(warnings)
	return values, warnings, nil
}

func decoding() *mapstructure.DecoderConfig {
	return &mapstructure.DecoderConfig{
		DecodeHook: mapstructure.ComposeDecodeHookFunc(
			mapstructure.StringToTimeDurationHookFunc(),
			mapstructure.TextUnmarshallerHookFunc(),
			mapstructure.StringToSliceHookFunc(","),
		),
		WeaklyTypedInput: true,
		ZeroFields:       true, // A list replaces the default list instead of overwriting its first elements.
		ErrorUnused:      true,
		MatchName:        func(key, field string) bool { return key == field },
	}
}
