package pipeline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// Wish is which device a pipeline wants. The zero value takes any.
type Wish struct {
	Text string // as it is written

	Index      gpu.Opt[int]
	UUID       string
	Vendor     gpu.Vendor
	Name       string // the whole name, or a part or pattern of it where Like is set
	Like       bool
	Capability capability // at least
	MinMemory  gpu.MiB    // at least, of the device as a whole
}

// capability is a compute capability, major and minor.
type capability [2]int

func (c capability) less(d capability) bool {
	return c[0] < d[0] || c[0] == d[0] && c[1] < d[1]
}

const wishForms = "write an index (0), a UUID (GPU-…), or conditions such as name~H200,memory>=40GiB"

// parseWish reads an index, a UUID, or the conditions that leases take in
// where: vendor=, name=, name~, cc>=, memory>= and gpu=, with commas between.
// The error has a line for each condition that is wrong.
func parseWish(text string) (Wish, error) {
	text = strings.TrimSpace(text)
	w := Wish{Text: text}
	if !strings.ContainsAny(text, "=~<>,") {
		index, err := strconv.Atoi(text)
		switch {
		case err != nil:
			w.UUID = text
		case index < 0:
			return w, fmt.Errorf("%d is not the index of a device", index)
		default:
			w.Index = gpu.Some(index)
		}
		return w, nil
	}
	seen := map[string]bool{}
	var wrong []error
	for term := range strings.SplitSeq(text, ",") {
		field, err := w.add(strings.TrimSpace(term))
		if err == nil && seen[field] {
			err = fmt.Errorf("%s is given twice", field)
		}
		seen[field] = true
		wrong = append(wrong, err)
	}
	return w, errors.Join(wrong...)
}

// add reads one condition and returns the field that it is about.
func (w *Wish) add(term string) (field string, err error) {
	at := strings.IndexAny(term, "=~<>")
	if at < 0 {
		return "", fmt.Errorf("%q is not a condition", term)
	}
	end := at + 1
	if end < len(term) && term[end] == '=' {
		end++
	}
	field, operator, value := strings.TrimSpace(term[:at]), term[at:end], strings.TrimSpace(term[end:])
	if value == "" {
		return field, fmt.Errorf("nothing comes after %s%s", field, operator)
	}
	switch field + operator {
	case "vendor=":
		w.Vendor = gpu.Vendor(strings.ToLower(value))
	case "name=", "name~":
		w.Name, w.Like = value, operator == "~"
	case "cc>=":
		w.Capability, err = parseCapability(value)
	case "memory>=":
		w.MinMemory, err = gpu.ParseMiB(value)
	case "gpu=":
		w.UUID = value
	default:
		err = fmt.Errorf("%q is not a condition", term)
	}
	return field, err
}

func parseCapability(text string) (capability, error) {
	first, second, _ := strings.Cut(text, ".")
	major, err := strconv.Atoi(first)
	minor := 0
	if err == nil && second != "" {
		minor, err = strconv.Atoi(second)
	}
	if err != nil || major < 0 || minor < 0 {
		return capability{}, fmt.Errorf("%q is not a compute capability such as 8.0", text)
	}
	return capability{major, minor}, nil
}

// meets reports whether a device is what is wished for.
func (w *Wish) meets(d *Device) bool {
	index, indexed := w.Index.Get()
	switch {
	case indexed && d.Index != index,
		w.UUID != "" && !strings.EqualFold(d.UUID, w.UUID),
		w.Vendor != "" && d.Vendor != w.Vendor,
		w.Name != "" && !w.named(d.Name),
		d.MemoryTotal < w.MinMemory:
		return false
	}
	if w.Capability == (capability{}) {
		return true
	}
	has, err := parseCapability(d.ComputeCapability)
	return err == nil && !has.less(w.Capability)
}

// named compares names, whatever the case. A pattern without * and ? may stand
// anywhere in the name; one with them is for the whole name.
func (w *Wish) named(name string) bool {
	switch {
	case !w.Like:
		return strings.EqualFold(name, w.Name)
	case strings.ContainsAny(w.Name, "*?"):
		return matches([]rune(strings.ToLower(w.Name)), []rune(strings.ToLower(name)))
	}
	return strings.Contains(strings.ToLower(name), strings.ToLower(w.Name))
}

// matches takes * for any text and ? for any one character. It keeps, for
// every beginning of the name, whether the pattern so far matches it, so no
// pattern takes longer than its length times that of the name.
func matches(pattern, name []rune) bool {
	ends := make([]bool, len(name)+1)
	ends[0] = true
	for _, p := range pattern {
		before := ends[0]
		ends[0] = ends[0] && p == '*'
		for i, c := range name {
			here := ends[i+1]
			if p == '*' {
				ends[i+1] = ends[i] || here
			} else {
				ends[i+1] = before && (p == '?' || p == c)
			}
			before = here
		}
	}
	return ends[len(name)]
}
