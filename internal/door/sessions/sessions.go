// Package sessions keeps who is signed in on the page, and slows down callers who
// guess.
//
// A session is a secret in a cookie. Sessions knows who made it and not what that person
// may do: the doorkeeper finds that out again for every request, so a role that is taken
// away is gone at once.
//
// A code is the secret in a link for signing in. It works once, within a minute, and
// exists only in memory.
//
// Tries delays the answers to wrong tokens and codes.
package sessions

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/secret"
	"github.com/berth-gpu/berth/internal/file"
)

const (
	// CodeLife is how long a code works.
	CodeLife = time.Minute
	// Idle is how long an unused session lasts.
	Idle = 12 * time.Hour
	// Longest is how long a session lasts that is in use.
	Longest = 7 * 24 * time.Hour

	// MostOfOne limits the sessions of one owner. The session that was unused for the
	// longest time makes room for another.
	MostOfOne = 32
	// Most limits the sessions of all owners, of whom those that may be the same person
	// have half. One of the owner with the most makes room for another.
	Most = 1024

	mostCodesOfOne = 8
	mostCodes      = 1024 // also half for those that may be the same person
)

// The reasons to refuse a secret or a code.
var (
	ErrUnknown = errors.New("no session has this secret")
	ErrEnded   = errors.New("the session has ended")
	ErrNoCode  = errors.New("no link has this code: it was used, or it is older than a minute")
)

// ErrMissing means that there is no session with this id.
var ErrMissing = errors.New("there is no session with this id")

// ErrFull means that the limit of codes is reached.
var ErrFull = errors.New("there are as many links for signing in that nobody has used as there may be: wait a minute")

// Owner describes who made a session.
type Owner struct {
	// UID is the user that the kernel named when the session began. The session is
	// valid only for connections of that user. It is unknown if the session began on
	// another machine.
	UID    access.UID
	Groups []int        // of the user on the Unix socket; nil if not known
	Place  access.Place // where the user called from to get a link

	Token string // name of the token that the session began with; empty if none
	Proof string // fingerprint of that token
}

// ByToken reports whether the session began with a token.
func (o *Owner) ByToken() bool { return o.Proof != "" }

// Object returns the session as an object of access.
func (o *Owner) Object() access.Object {
	switch {
	case !o.ByToken():
		return access.Of(access.SignedIn, o.UID.Or(access.NoUID), "")
	case o.Token == access.DaemonToken:
		return access.Of(access.SignedIn, access.NoUID, access.DaemonUser)
	}
	return access.Of(access.SignedIn, access.NoUID, access.TokenUser(o.Token))
}

// mayBeMany reports whether one person may be many such owners: somebody with a range of
// user ids for containers makes a session as each of them, or shows a token as each.
func (o *Owner) mayBeMany() bool { return o.UID.Known() && o.Place != access.Here }

// same reports whether two sessions belong to the same owner.
func (o *Owner) same(other *Owner) bool { return o.UID == other.UID && o.Proof == other.Proof }

// Session is a session without its secret.
type Session struct {
	ID string
	Owner
	Begun time.Time
	Used  time.Time // to the minute
}

// Until returns when the session ends if it stays unused.
func (s *Session) Until() time.Time {
	idle, longest := s.Used.Add(Idle), s.Begun.Add(Longest)
	if longest.Before(idle) {
		return longest
	}
	return idle
}

// entry is a session that has not ended.
type entry struct {
	Session
	secret.Kept
}

// code is a code that has not been used.
type code struct {
	Owner
	hash secret.Hash
	ends time.Time
}

// Sessions keeps sessions and codes. Use New or Open to make one.
type Sessions struct {
	file    *file.State[document]
	writing sync.Mutex // held while the file is written

	mu     sync.Mutex // guards what follows
	byHash map[secret.Hash]*entry
	codes  []code // the oldest first
}

// Issue returns a code for an owner.
func (s *Sessions) Issue(o Owner, now time.Time) (made string, ends time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes = slices.DeleteFunc(s.codes, func(c code) bool { return !now.Before(c.ends) })
	of, many := 0, 0
	for i := len(s.codes) - 1; i >= 0; i-- {
		if s.codes[i].same(&o) {
			if of++; of >= mostCodesOfOne {
				s.codes = slices.Delete(s.codes, i, i+1)
				continue
			}
		}
		if s.codes[i].mayBeMany() {
			many++
		}
	}
	if len(s.codes) >= mostCodes || o.mayBeMany() && many >= mostCodes/2 {
		return "", time.Time{}, ErrFull
	}
	made, ends = secret.New(), now.Add(CodeLife)
	s.codes = append(s.codes, code{o, secret.Of(made), ends})
	return made, ends, nil
}

// Redeem returns the owner of a code. The code does not work again, even if the caller
// of Redeem then refuses to let the bearer in.
func (s *Sessions) Redeem(shown string, now time.Time) (Owner, error) {
	h := secret.Of(shown)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.codes, func(c code) bool { return c.hash == h })
	if at < 0 {
		return Owner{}, ErrNoCode
	}
	found := s.codes[at]
	s.codes = slices.Delete(s.codes, at, at+1)
	if !now.Before(found.ends) {
		return Owner{}, ErrNoCode
	}
	return found.Owner, nil
}

// Begin begins a session and returns its secret. It calls confirm, which may refuse the
// session, before the session is valid. The file has the session a moment later: a
// daemon that is killed in between forgets it, and the person signs in again.
func (s *Sessions) Begin(o Owner, now time.Time, confirm func(Session) error) (made string, begun Session, err error) {
	made = secret.New()
	now = now.UTC().Truncate(time.Second)
	begun = Session{ID: newID(), Owner: o, Begun: now, Used: now}
	if err := confirm(begun); err != nil {
		return "", Session{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune(now)
	if full := o.mayBeMany() && s.count((*Owner).mayBeMany) >= Most/2; full || s.count(o.same) >= MostOfOne || len(s.byHash) >= Most {
		last := s.oldest(&o)
		if last == nil {
			last = s.spare(full)
		}
		s.remove(last)
	}
	e := &entry{begun, secret.Keep(secret.Of(made))}
	s.byHash[e.Hash] = e
	s.file.Change(changedAfter)
	return made, begun, nil
}

// Shown is a session whose secret was shown.
type Shown struct {
	Session
	Standing context.Context // ends when the session is ended
}

// Check returns the session with a secret, and notes its use. The error is ErrUnknown
// or ErrEnded.
func (s *Sessions) Check(shown string, now time.Time) (Shown, error) {
	h := secret.Of(shown)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byHash[h]
	if e == nil {
		return Shown{}, ErrUnknown
	}
	if !now.Before(e.Until()) {
		s.remove(e)
		s.file.Change(changedAfter)
		return Shown{}, ErrEnded
	}
	if minute := now.UTC().Truncate(time.Minute); minute.After(e.Used) {
		e.Used = minute
		s.file.Change(usedAfter)
	}
	return Shown{Session: e.Session, Standing: e.Standing}, nil
}

// Find returns the session with an id.
func (s *Sessions) Find(id string, now time.Time) (Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.byHash {
		if e.ID == id && now.Before(e.Until()) {
			return e.Session, nil
		}
	}
	return Session{}, fmt.Errorf("session %s: %w", id, ErrMissing)
}

// List returns every session, the oldest first.
func (s *Sessions) List(now time.Time) []Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune(now)
	list := make([]Session, 0, len(s.byHash))
	for _, e := range s.byHash {
		list = append(list, e.Session)
	}
	slices.SortFunc(list, func(a, b Session) int { return cmp.Or(a.Begun.Compare(b.Begun), cmp.Compare(a.ID, b.ID)) })
	return list
}

// End ends a session at once: the context of its requests ends. It returns when the end
// is on disk. If the write fails, the session is worthless until the daemon restarts.
func (s *Sessions) End(id string) (Session, error) {
	s.mu.Lock()
	var found *entry
	for _, e := range s.byHash {
		if e.ID == id {
			found = e
		}
	}
	if found != nil {
		s.remove(found)
	}
	s.mu.Unlock()
	if found == nil {
		return Session{}, fmt.Errorf("session %s: %w", id, ErrMissing)
	}
	if err := s.save(); err != nil {
		s.file.Change(changedAfter) // Run tries again
		return found.Session, fmt.Errorf("the session %s is refused from now on, but the daemon could not write that down and accepts it again after a restart: %w", id, err)
	}
	return found.Session, nil
}

// remove removes a session. The caller holds mu.
func (s *Sessions) remove(e *entry) {
	delete(s.byHash, e.Hash)
	e.End(ErrEnded)
}

// prune removes the sessions that are over. The caller holds mu.
func (s *Sessions) prune(now time.Time) {
	for _, e := range s.byHash {
		if !now.Before(e.Until()) {
			s.remove(e)
			s.file.Change(changedAfter)
		}
	}
}

// count returns how many sessions have such owners. The caller holds mu.
func (s *Sessions) count(such func(*Owner) bool) (n int) {
	for _, e := range s.byHash {
		if such(&e.Owner) {
			n++
		}
	}
	return n
}

// oldest returns the session of an owner that was unused for the longest time, or nil
// if there is none. The caller holds mu.
func (s *Sessions) oldest(o *Owner) (last *entry) {
	for _, e := range s.byHash {
		if e.same(o) && (last == nil || e.older(last) < 0) {
			last = e
		}
	}
	return last
}

// spare returns the session that was unused for the longest time of those of an owner with
// the most, or of those of owners that may be the same person. The caller holds mu.
func (s *Sessions) spare(many bool) (last *entry) {
	type owner struct {
		access.UID
		proof string
	}
	counts := map[owner]int{}
	for _, e := range s.byHash {
		counts[owner{e.UID, e.Proof}]++
	}
	count := func(e *entry) int { return counts[owner{e.UID, e.Proof}] }
	for _, e := range s.byHash {
		if many && !e.mayBeMany() {
			continue
		}
		if last == nil || cmp.Or(cmp.Compare(count(last), count(e)), e.older(last)) < 0 {
			last = e
		}
	}
	return last
}

// older compares when two sessions were last used.
func (e *entry) older(other *entry) int {
	return cmp.Or(e.Used.Compare(other.Used), e.Begun.Compare(other.Begun), cmp.Compare(e.ID, other.ID))
}

// newID returns the name of a session, which is not secret.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
