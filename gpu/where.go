package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Where describes the devices that a request accepts. The zero value accepts
// every device.
type Where struct {
	GPU       string     `json:"gpu,omitempty"`       // this device and no other, by UUID or index
	Vendor    Vendor     `json:"vendor,omitempty"`    // empty means any
	Name      string     `json:"name,omitempty"`      // the whole name, or a part or pattern of it if Like is set; empty means any
	Like      bool       `json:"like,omitempty"`      // Name is a part of the name, or with * or ? a pattern for all of it
	CC        Capability `json:"cc,omitzero"`         // minimum; zero means any
	MinMemory MiB        `json:"memory_mb,omitempty"` // minimum, of the device as a whole; zero means any

	Confidential Confidence `json:"confidential,omitempty"` // empty means any
}

// mostWrong is the maximum number of constraints that ParseWhere complains about.
const mostWrong = 8

// ParseWhere reads constraints separated by commas, all of which must hold:
//
//	vendor=nvidia      made by
//	name=NVIDIA H200   has exactly this name (upper and lower case are the same)
//	name~H200          has this in its name; with * and ? a pattern for the whole name
//	cc>=8.0            has at least this compute capability
//	memory>=40GiB      has at least this much memory in all
//	confidential=on    is in confidential mode; off: the driver says that it is not
//	gpu=GPU-5f…        is this device, by UUID (upper and lower case are the same) or index
//
// The error names the constraints that are wrong, at most eight of them.
func ParseWhere(text string) (Where, error) {
	var w Where
	if strings.TrimSpace(text) == "" {
		return w, nil
	}
	if !utf8.ValidString(text) {
		return Where{}, fmt.Errorf("constraint %q is not valid UTF-8", text)
	}
	seen := make(map[string]bool)
	var wrong []string
	for term := range strings.SplitSeq(text, ",") {
		field, operator, value := splitTerm(term)
		err := w.add(field, operator, value)
		if err == nil && seen[field] {
			err = fmt.Errorf("%s is given twice", field)
		}
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("constraint %q: %v", strings.TrimSpace(term), err))
		}
		if len(wrong) == mostWrong { // a text can have a million commas
			break
		}
		seen[field] = true
	}
	if wrong != nil {
		return Where{}, errors.New(strings.Join(wrong, "; "))
	}
	return w, nil
}

// ParseDevices reads what a person writes to name devices: an index such as 0,
// a UUID, or constraints as ParseWhere reads them.
func ParseDevices(text string) (Where, error) {
	text = strings.TrimSpace(text)
	if strings.ContainsAny(text, "=~<>!,") {
		return ParseWhere(text)
	}
	if text == "" {
		return Where{}, nil
	}
	return ParseWhere("gpu=" + text)
}

func splitTerm(term string) (field, operator, value string) {
	at := strings.IndexAny(term, "~=<>!")
	if at < 0 {
		return strings.TrimSpace(term), "", ""
	}
	end := at + 1
	if end < len(term) && term[end] == '=' {
		end++
	}
	return strings.TrimSpace(term[:at]), term[at:end], strings.TrimSpace(term[end:])
}

// operators lists the operators of each field.
var operators = map[string]string{"vendor": "=", "name": "= ~", "cc": ">=", "memory": ">=", "confidential": "=", "gpu": "="}

func (w *Where) add(field, operator, value string) error {
	allowed, known := operators[field]
	switch {
	case !known:
		return fmt.Errorf("%q cannot be asked for: use vendor=, name=, name~, cc>=, memory>=, confidential= or gpu=", field)
	case operator == "" || !strings.Contains(" "+allowed+" ", " "+operator+" "), strings.HasPrefix(value, "="):
		return fmt.Errorf("write %s%s…", field, strings.ReplaceAll(allowed, " ", "… or "+field))
	case value == "":
		return fmt.Errorf("nothing after %s%s", field, operator)
	}
	var err error
	switch field {
	case "vendor":
		w.Vendor = Vendor(strings.ToLower(value))
	case "name":
		w.Name, w.Like = value, operator == "~"
	case "cc":
		w.CC, err = ParseCapability(value)
	case "memory":
		w.MinMemory, err = ParseMiB(value)
	case "confidential":
		w.Confidential = Confidence(strings.ToLower(value))
		if !slices.Contains([]Confidence{Confidential, ConfidentialOpen, NotConfidential}, w.Confidential) {
			return fmt.Errorf("%q is not a mode: write confidential=on, off or devtools", value)
		}
	case "gpu":
		if index, number := strconv.Atoi(value); number == nil && index < 0 {
			return fmt.Errorf("%d is not the index of a device", index)
		}
		w.GPU = value
	}
	return err
}

// String returns the constraints as ParseWhere reads them.
func (w Where) String() string {
	var terms []string
	if w.GPU != "" {
		terms = append(terms, "gpu="+w.GPU)
	}
	if w.Vendor != "" {
		terms = append(terms, "vendor="+string(w.Vendor))
	}
	if w.Name != "" {
		operator := "="
		if w.Like {
			operator = "~"
		}
		terms = append(terms, "name"+operator+w.Name)
	}
	if w.CC != (Capability{}) {
		terms = append(terms, "cc>="+w.CC.String())
	}
	if w.MinMemory != 0 {
		terms = append(terms, "memory>="+strconv.FormatInt(int64(w.MinMemory), 10)+"MiB")
	}
	if w.Confidential != "" {
		terms = append(terms, "confidential="+string(w.Confidential))
	}
	return strings.Join(terms, ",")
}

// Model is everything about a device that constraints look at, except the pin to one
// device. A machine has few models, however many devices it has.
type Model struct {
	Vendor Vendor
	Name   string
	CC     Capability // zero if it has none
	Memory MiB

	Confidential Confidence // empty if the driver does not say
}

// Model returns the model of the device.
func (d *Device) Model() Model {
	m := Model{Vendor: d.Vendor, Name: d.Name, Memory: d.MemoryTotal, Confidential: d.Confidential}
	if cc, err := ParseCapability(d.ComputeCapability); err == nil {
		m.CC = cc
	}
	return m
}

// Unmet returns the name of the first constraint that a model does not meet, or "" if it
// meets all. Allows judges the pin to one device.
func (w *Where) Unmet(m *Model) string {
	switch {
	case w.Vendor != "" && w.Vendor != m.Vendor:
		return "vendor"
	case w.Name != "" && !w.named(m.Name):
		return "name"
	case w.CC != (Capability{}) && (m.CC == Capability{} || m.CC.Less(w.CC)):
		return "cc"
	case m.Memory < w.MinMemory:
		return "memory"
	case w.Confidential != "" && w.Confidential != m.Confidential:
		return "confidential"
	}
	return ""
}

// Allows reports whether w accepts the device with this UUID and index: w pins this
// device or none.
func (w *Where) Allows(uuid string, index int) bool {
	return w.GPU == "" || strings.EqualFold(w.GPU, uuid) || w.GPU == strconv.Itoa(index)
}

// Meets reports whether a device meets all constraints.
func (w *Where) Meets(d *Device) bool {
	m := d.Model()
	return w.Allows(d.UUID, d.Index) && w.Unmet(&m) == ""
}

func (w *Where) named(name string) bool {
	if !w.Like {
		return strings.EqualFold(name, w.Name)
	}
	return like(w.Name, name)
}

// like reports whether a name matches a pattern, ignoring case. A pattern
// without * and ? may match any part of the name; with them it must match the
// whole name, * any text and ? any one character. On a mismatch, like goes back
// to the last * only, so it takes at most len(pattern) × len(name) steps.
func like(pattern, name string) bool {
	anywhere := !strings.ContainsAny(pattern, "*?")
	restart, mark := -1, 0 // where to go on after a mismatch; restart is -1 if there is no such place
	if anywhere {
		restart = 0
	}
	i, j := 0, 0
	for j < len(name) {
		switch {
		case i == len(pattern) && anywhere:
			return true
		case i < len(pattern) && pattern[i] == '*':
			i++
			restart, mark = i, j
			continue
		case i < len(pattern):
			p, width := utf8.DecodeRuneInString(pattern[i:])
			c, step := utf8.DecodeRuneInString(name[j:])
			if p == '?' || unicode.ToLower(p) == unicode.ToLower(c) {
				i, j = i+width, j+step
				continue
			}
		}
		if restart < 0 {
			return false
		}
		_, step := utf8.DecodeRuneInString(name[mark:])
		mark += step
		i, j = restart, mark
	}
	return strings.Trim(pattern[i:], "*") == ""
}
