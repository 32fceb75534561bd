package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Named is something that people name on a command line: a job, a lease or a request.
type Named struct {
	ID    string
	Name  string // what the user called it; may be empty
	Ended bool
}

// ErrNothing is the error of Pick if nothing has the name.
var ErrNothing = errors.New("nothing has that name")

// mostCandidates is how many things an error names that a text could mean.
const mostCandidates = 8

// Pick returns the id that a text means: that of the thing with this id, else of the only
// one with this name, else of the only name that begins so. A beginning must stop before
// the number of an id: tr means train-17, and train-1 never does, because it looks like
// the id of another.
//
// The things come in groups. Of those with a name, the first group that has one decides:
// what is the user's own or still runs comes before the rest. Of those that have ended, the
// first is meant, so they come newest first. An id, a name or a beginning is looked for in
// all groups before anything less exact is: a name that has ended never means what only
// begins so. If nothing matches, the error is ErrNothing; if several things do, it names
// them.
func Pick(text string, groups ...[]Named) (id string, err error) {
	if text == "" {
		return "", ErrNothing
	}
	found, err := first(groups, func(n Named) bool { return n.ID == text })
	if found == "" && err == nil {
		found, err = first(groups, func(n Named) bool { return n.Name == text || words.Stem(n.ID) == text })
	}
	if several := (severalError)(nil); errors.As(err, &several) {
		return "", &ambiguousError{text, several}
	}
	if found != "" {
		return found, nil
	}
	var meant []string
	for _, stem := range beginning(text, groups) {
		found, err := first(groups, func(n Named) bool { return words.Stem(n.ID) == stem })
		if several := (severalError)(nil); errors.As(err, &several) {
			meant = append(meant, several...)
		} else {
			meant = append(meant, found)
		}
	}
	switch len(meant) {
	case 0:
		return "", ErrNothing
	case 1:
		return meant[0], nil
	}
	return "", &ambiguousError{text, meant}
}

// first returns the id of what matches in the first group that has such a thing, or "".
func first(groups [][]Named, matches func(Named) bool) (id string, err error) {
	for _, group := range groups {
		var found []string
		for _, n := range group {
			if matches(n) && !slices.Contains(found, n.ID) && !(n.Ended && len(found) > 0) {
				found = append(found, n.ID)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return "", severalError(found)
		}
	}
	return "", nil
}

// severalError has the ids of several things that match.
type severalError []string

func (e severalError) Error() string { return words.And(e) }

// beginning returns the ids without their numbers that begin with a text, each once.
func beginning(text string, groups [][]Named) (stems []string) {
	for _, group := range groups {
		for _, n := range group {
			if stem := words.Stem(n.ID); strings.HasPrefix(stem, text) && !slices.Contains(stems, stem) {
				stems = append(stems, stem)
			}
		}
	}
	return stems
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

// Leases returns the names of the leases and requests that a caller may see, those of one
// user and those of others, and of the leases of that user that have ended, the newest first.
func Leases(ctx context.Context, c *client.Client, user string) (theirs, others, ended []Named, err error) {
	all, err := c.Leases(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	for id, h := range view.Holders(all) {
		if h.User == user {
			theirs = append(theirs, Named{ID: id, Name: h.Name})
		} else {
			others = append(others, Named{ID: id, Name: h.Name})
		}
	}
	for query := (client.PastQuery{User: user, Limit: 2000}); ; {
		past, err := c.PastLeases(ctx, query)
		if err != nil {
			return nil, nil, nil, err
		}
		for _, p := range past.Leases {
			if p.Holder.User == user {
				ended = append(ended, Named{ID: p.ID, Name: p.Holder.Name, Ended: true})
			}
		}
		if past.Next == "" || past.Next == query.After {
			return theirs, others, ended, nil
		}
		query.After = past.Next
	}
}

// Jobs returns the names of those jobs of a user that a query selects.
func Jobs(ctx context.Context, c *client.Client, user string, q client.JobQuery) (alive, ended []Named, err error) {
	all, err := c.Jobs(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	for _, j := range all.Jobs {
		switch n := (Named{ID: j.ID, Name: j.Name, Ended: j.Over()}); {
		case j.User != user:
		case n.Ended:
			ended = append(ended, n)
		default:
			alive = append(alive, n)
		}
	}
	return alive, ended, nil
}
