package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/berth-gpu/berth/internal/text/words"
)

// Assignments turns words such as temp_optimal=60 into the JSON object that
// Change takes, and returns the names of the fields. Callers may leave out "gpu."
// in front of a field.
func Assignments(changes []string) (body []byte, names []string, err error) {
	section := map[string]any{}
	for _, change := range changes {
		name, value, found := strings.Cut(change, "=")
		name = strings.TrimPrefix(FieldName(strings.TrimSpace(name)), "gpu.")
		if !found || name == "" {
			return nil, nil, fmt.Errorf("%q is not FIELD=VALUE: write it like %s=60, without blanks", change, cmp.Or(name, "temp_optimal"))
		}
		if section, _, _ := strings.Cut(name, "."); section == "daemon" {
			return nil, nil, fmt.Errorf("%s %s", name, FixedWhileRunning)
		}
		if err := assign(section, strings.Split(name, "."), jsonValue(value)); err != nil {
			return nil, nil, fmt.Errorf("%q: %w", change, err)
		}
		names = append(names, name)
	}
	body, err = json.Marshal(section)
	return body, names, err
}

// FieldName returns the name of a field with the one name of its service.
func FieldName(written string) string {
	path := strings.Split(written, ".")
	if path[0] == "services" && len(path) > 1 {
		path[1] = words.Service(path[1])
	}
	return dotted(path)
}

// assign sets a value in nested objects, and makes missing ones.
func assign(section map[string]any, path []string, value any) error {
	for _, name := range path[:len(path)-1] {
		if _, there := section[name]; !there {
			section[name] = map[string]any{}
		}
		below, ok := section[name].(map[string]any)
		if !ok {
			return fmt.Errorf("%s has a value already", name)
		}
		section = below
	}
	last := path[len(path)-1]
	if _, there := section[last]; there {
		return fmt.Errorf("%s is set twice", last)
	}
	section[last] = value
	return nil
}

// jsonValue returns text as a number, true, false, null, a list or an object if it is
// one, and as a string otherwise: each field knows whether it takes "1GiB" or "500ms". A
// list may lack the quotes of its items, as in berth.yaml.
func jsonValue(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	inside, opened := strings.CutPrefix(text, "[")
	inside, closed := strings.CutSuffix(inside, "]")
	if !opened || !closed {
		return text
	}
	items := strings.Split(inside, ",")
	for i, item := range items {
		items[i] = strings.TrimSpace(item)
	}
	return items
}
