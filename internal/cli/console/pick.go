package console

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/internal/text/words"
)

// Named is something that people name on a command line: a job, a lease or a request.
type Named struct {
	ID   string
	Name string // what the user called it; may be empty
}

// ErrNothing is the error of Pick if nothing has the name.
var ErrNothing = errors.New("nothing has that name")

// mostCandidates is how many things an error names that a text could mean.
const mostCandidates = 8

// Pick returns the id that a text means: that of the thing with this id, else of the only
// one with this name, else of the only one whose id begins so. A beginning must stop before
// the number of an id: tr means train-17, and train-1 never does, because it looks like
// the id of another.
//
// The things come in groups, of which the first with a match decides: what is the user's
// own or still runs comes before the rest. If nothing matches, the error is ErrNothing; if
// several things do, it names them.
func Pick(text string, groups ...[]Named) (id string, err error) {
	if text == "" {
		return "", ErrNothing
	}
	for _, matches := range []func(Named) bool{
		func(n Named) bool { return n.ID == text },
		func(n Named) bool { return n.Name == text || n.ID[:numberAt(n.ID)] == text },
		func(n Named) bool { return len(text) <= numberAt(n.ID) && strings.HasPrefix(n.ID, text) },
	} {
		for _, group := range groups {
			var found []string
			for _, n := range group {
				if matches(n) && !slices.Contains(found, n.ID) {
					found = append(found, n.ID)
				}
			}
			switch len(found) {
			case 0:
			case 1:
				return found[0], nil
			default:
				return "", &ambiguousError{text, found}
			}
		}
	}
	return "", ErrNothing
}

// numberAt returns where the number of an id begins, with the dash before it: at the end
// if the id has none. A task has a second number, after a dot.
func numberAt(id string) int {
	at := strings.LastIndexByte(id, '-')
	if at < 1 || at == len(id)-1 || strings.Trim(id[at+1:], "0123456789.") != "" {
		return len(id)
	}
	return at
}

// ambiguousError says that a text means several things.
type ambiguousError struct {
	text  string
	found []string
}

func (e *ambiguousError) Error() string {
	return fmt.Sprintf("%q means several: %s", e.text, words.Few(e.found, mostCandidates))
}

// Hint returns the next step.
func (e *ambiguousError) Hint() string { return "write one of these ids in full" }
