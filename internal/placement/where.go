package placement

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berth-gpu/berth/gpu"
)

// Where is what a device must be. The zero value allows every device.
type Where struct {
	GPU       string     // UUID: this device and no other
	Vendor    gpu.Vendor // empty: any
	Name      string     // the whole name, or a part or pattern of it where Like is set; empty: any
	Like      bool       // Name is looked for inside the name; with * or ? it is a pattern for all of it
	CC        Capability // at least; zero: any
	MinMemory gpu.MiB    // at least, of the device as a whole; zero: any
}

// ParseWhere reads constraints separated by commas, all of which must hold:
//
//	vendor=nvidia      made by
//	name=NVIDIA H200   has exactly this name (upper and lower case are the same)
//	name~H200          has this in its name; with * and ? a pattern for the whole name
//	cc>=8.0            has at least this compute capability
//	memory>=40GiB      has at least this much memory in all
//	gpu=GPU-5f…        is this device, by UUID
func ParseWhere(text string) (Where, error) {
	var w Where
	if strings.TrimSpace(text) == "" {
		return w, nil
	}
	if !utf8.ValidString(text) {
		return Where{}, fmt.Errorf("constraint %q is not valid UTF-8", text)
	}
	seen := make(map[string]bool)
	for term := range strings.SplitSeq(text, ",") {
		field, operator, value := splitTerm(term)
		if seen[field] {
			return Where{}, fmt.Errorf("constraint %q: %s is given twice", strings.TrimSpace(term), field)
		}
		seen[field] = true
		if err := w.add(field, operator, value); err != nil {
			return Where{}, fmt.Errorf("constraint %q: %w", strings.TrimSpace(term), err)
		}
	}
	return w, nil
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

// operators lists what each field can be compared with.
var operators = map[string]string{"vendor": "=", "name": "= ~", "cc": ">=", "memory": ">=", "gpu": "="}

func (w *Where) add(field, operator, value string) error {
	allowed, known := operators[field]
	switch {
	case !known:
		return fmt.Errorf("%q cannot be asked for: use vendor=, name=, name~, cc>=, memory>= or gpu=", field)
	case operator == "" || !strings.Contains(" "+allowed+" ", " "+operator+" "):
		return fmt.Errorf("write %s%s…", field, strings.ReplaceAll(allowed, " ", "… or "+field))
	case value == "":
		return fmt.Errorf("nothing after %s%s", field, operator)
	}
	var err error
	switch field {
	case "vendor":
		w.Vendor = gpu.Vendor(strings.ToLower(value))
	case "name":
		w.Name, w.Like = value, operator == "~"
	case "cc":
		w.CC, err = ParseCapability(value)
	case "memory":
		w.MinMemory, err = gpu.ParseMiB(value)
	case "gpu":
		w.GPU = value
	}
	return err
}

// String writes the constraints the way ParseWhere reads them.
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
	return strings.Join(terms, ",")
}

// unmet says which constraint a model does not meet; empty if it meets all.
// The pin to one device is not about models and is judged elsewhere.
func (w *Where) unmet(m *model) string {
	switch {
	case w.Vendor != "" && w.Vendor != m.vendor:
		return "vendor"
	case w.Name != "" && !w.named(m.name):
		return "name"
	case w.CC != (Capability{}) && (!m.hasCC || m.cc.Less(w.CC)):
		return "cc"
	case m.memory < w.MinMemory:
		return "memory"
	}
	return ""
}

func (w *Where) named(name string) bool {
	if !w.Like {
		return strings.EqualFold(name, w.Name)
	}
	return like(w.Name, name)
}

// like looks for a pattern in a name, whatever the case. Without * and ? it may
// stand anywhere in the name; with them it is for the whole name, * for any
// text and ? for any one character. On a mismatch the search only ever goes
// back to the last *, so it takes at most len(pattern) × len(name) steps.
func like(pattern, name string) bool {
	anywhere := !strings.ContainsAny(pattern, "*?")
	restart, mark := -1, 0 // where to go on after a mismatch, if anywhere
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
