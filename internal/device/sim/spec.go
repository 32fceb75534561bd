package sim

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/text/words"
)

const (
	defaultModel = "h200"
	defaultCount = 4
	maxDevices   = 256 // every device lists its links to all others
)

// recorded begins a part of a spec that named a recording in berth 0.1.0.
const recorded = "trace="

// isPath reports whether a spec is the path of a scenario file, and not a list of models.
func isPath(spec string) bool {
	ext := filepath.Ext(spec)
	return (strings.Contains(spec, "/") || ext == ".yaml" || ext == ".yml") && !strings.Contains("+"+spec, "+"+recorded)
}

// unscripted returns a machine described by its models alone.
func unscripted(known *catalog, spec string, firstIndex int) (*scenario, error) {
	models, err := parseModels(known, spec)
	if err != nil {
		hint := "give a number, a model, several of one like 4xrtx-4060, or the path of a scenario file ending in .yaml"
		return nil, &device.Error{Op: fmt.Sprintf("simulate %q", clip(spec)), Err: &device.SpecError{Err: err}, Hint: hint}
	}
	world := &scenario{models: models, speed: 1}
	for i := range models {
		world.scripts = append(world.scripts, waves(firstIndex+i))
	}
	return world, nil
}

// parseModels reads "4", "l4", "4xl4", "dgx-h200" and sums of these with "+".
func parseModels(known *catalog, spec string) ([]*model, error) {
	if strings.TrimSpace(spec) == "" {
		spec = strconv.Itoa(defaultCount)
	}
	var models []*model
	for part := range strings.SplitSeq(spec, "+") {
		count, group, err := parseGroup(known, part)
		if err != nil {
			return nil, err
		}
		if len(models)+count*len(group) > maxDevices {
			return nil, fmt.Errorf("more than %d devices", maxDevices)
		}
		for range count {
			models = append(models, group...)
		}
	}
	return models, nil
}

// parseGroup reads one part of a spec: a count and a group of models.
func parseGroup(known *catalog, part string) (count int, group []*model, err error) {
	part = strings.ToLower(strings.TrimSpace(part))
	if strings.HasPrefix(part, recorded) {
		return 0, nil, errors.New("berth plays no recordings any more: name a model, and say what happens in the timeline of a scenario, as berth help simulator has it")
	}
	count, name, err := parsePart(part)
	if err != nil {
		return 0, nil, err
	}
	if group = known.expand(name); group == nil {
		err = unknownModel(known, name)
	}
	return count, group, err
}

func parsePart(part string) (count int, name string, err error) {
	digits, rest, times := strings.Cut(part, "x")
	count, err = strconv.Atoi(digits)
	switch counted := err == nil || errors.Is(err, strconv.ErrRange); {
	case counted && !times:
		name = defaultModel
	case counted && rest != "":
		name = rest
	default:
		return 1, part, nil
	}
	if err != nil || count < 0 || count > maxDevices {
		return 0, "", fmt.Errorf("%s devices: between 0 and %d are possible", clip(digits), maxDevices)
	}
	return count, name, nil
}

func unknownModel(known *catalog, name string) error {
	names := known.names()
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(words.Distance(name, a), words.Distance(name, b)) })
	return fmt.Errorf("no model is called %q; there are %s", clip(name), strings.Join(names, ", "))
}

// clip shortens bad input for a message.
func clip(text string) string { return words.Cut(text, 60) }
