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
	"github.com/berth-gpu/berth/internal/words"
)

const (
	defaultModel = "h200"
	defaultCount = 4
	maxDevices   = 256 // every device lists its links to all others
)

// isPath reports whether a spec is the path of a scenario file, and not a list
// of models.
func isPath(spec string) bool {
	ext := filepath.Ext(spec)
	return strings.Contains(spec, "/") || ext == ".yaml" || ext == ".yml"
}

// unscripted returns a machine described by its models alone.
func unscripted(known *catalog, spec string, firstIndex int) (*scenario, error) {
	models, err := parseModels(known, spec)
	if err != nil {
		return nil, &device.Error{
			Op: fmt.Sprintf("simulate %q", clip(spec)), Err: &device.SpecError{Err: err},
			Hint: "give a number, a model, several of one like 4xrtx-4060, or the path of a scenario file ending in .yaml",
		}
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
		count, name, err := parsePart(strings.ToLower(strings.TrimSpace(part)))
		if err != nil {
			return nil, err
		}
		group := known.expand(name)
		if group == nil {
			return nil, unknownModel(known, name)
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
	names := byDistance(name, known.names())
	return fmt.Errorf("no model is called %q; there are %s", clip(name), strings.Join(names, ", "))
}

// byDistance sorts names by how little they differ from a word.
func byDistance(word string, names []string) []string {
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(words.Distance(word, a), words.Distance(word, b)) })
	return sorted
}

// clip shortens bad input for a message.
func clip(text string) string { return words.Cut(text, 60) }
