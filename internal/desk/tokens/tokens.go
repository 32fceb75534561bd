// Package tokens keeps the named tokens of a daemon.
//
// A token is a secret that gives its holder a role. One that a user brings has at least 32
// characters. Tokens remembers the hashes of revoked tokens, so that their holders learn
// why they are refused.
package tokens

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/secret"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/text/words"
)

const (
	// Prefix begins every secret that berth makes, so that people and programs that look
	// for leaked secrets recognise it.
	Prefix = "berth_"
	// ShortestSecret is the least number of characters that a secret may have.
	ShortestSecret = 32
	// LongestSecret is the most characters that a secret may have.
	LongestSecret = 512

	longestName = 64
	most        = 1000 // tokens
	mostRevoked = 1000 // revoked tokens that are remembered
)

// The reasons to refuse a secret. Only the holder of the right secret learns that its
// token has expired or was revoked.
var (
	ErrUnknown = errors.New("no token has this secret")
	ErrExpired = errors.New("the token has expired")
	ErrRevoked = errors.New("the token was revoked")
)

// ErrMissing means that there is no token with this name.
var ErrMissing = errors.New("there is no token with this name")

// ErrTaken means that a token has this name, or has or had this secret.
var ErrTaken = errors.New("it is taken")

// ErrFull means that there are as many tokens as allowed.
var ErrFull = fmt.Errorf("there are %d tokens, which is the most: revoke one that is not used", most)

// InvalidError describes what is wrong with a requested token.
type InvalidError struct{ Field, Detail string }

func (e *InvalidError) Error() string { return e.Field + " " + e.Detail }

// Token is a token without its secret.
type Token struct {
	Name    string
	Role    access.Role
	Service string    // the only service that its holder may act for; empty means any
	As      string    // login name of the user that it is bound to; empty if it is bound to nobody
	UID     int       // uid that the user had when the token was made; 0 if it is bound to nobody
	Created time.Time // zero if the token is in the configuration
	Expires time.Time // zero if it does not expire
	Used    time.Time // when somebody last showed it, to the minute; zero if never
	By      string    // user who created it
}

// entry is a token that is accepted.
type entry struct {
	Token // without Used
	secret.Kept
	weak bool         // its secret is short enough to be guessed
	used atomic.Int64 // minutes from 1970 to when it was last shown; 0 if never
}

func newEntry(t Token, h secret.Hash) *entry {
	e := &entry{Token: t, Kept: secret.Keep(h)}
	if !t.Used.IsZero() {
		e.used.Store(minute(t.Used))
	}
	return e
}

// token returns the token, including when it was last used.
func (e *entry) token() Token {
	t := e.Token
	if used := e.used.Load(); used != 0 {
		t.Used = time.Unix(used*60, 0).UTC()
	}
	return t
}

// gives reports whether two tokens have the same rights.
func (t *Token) gives(other *Token) bool {
	return t.Role == other.Role && t.Service == other.Service && t.As == other.As && t.UID == other.UID
}

func minute(t time.Time) int64 { return t.Unix() / 60 }

// revoked is a token that was revoked.
type revoked struct {
	name string
	hash secret.Hash
	at   time.Time
}

// Tokens keeps the tokens of a daemon. Create one with New or Open.
type Tokens struct {
	file     *file.State[book]
	changing sync.Mutex // held while tokens change, also during writes to the disk
	all      atomic.Pointer[book]
}

// book holds every token at one moment. It never changes, so Check takes no lock.
type book struct {
	byHash  map[secret.Hash]*entry // including the daemon's own
	byName  map[string]*entry
	revoked []revoked // oldest first
	gone    map[secret.Hash]bool
	daemon  *entry // the token of the configuration; nil if there is none
}

// New returns an empty set of tokens without a file.
func New() *Tokens { return newTokens("") }

func newTokens(path string) *Tokens {
	t := &Tokens{file: file.NewState[book](path, file.StateOptions{What: "the tokens"})}
	t.all.Store(&book{byHash: map[secret.Hash]*entry{}, byName: map[string]*entry{}})
	return t
}

// with returns a copy of the book with these tokens instead.
func (b *book) with(tokens map[string]*entry, gone []revoked, daemon *entry) *book {
	next := &book{byHash: make(map[secret.Hash]*entry, len(tokens)+1), byName: tokens, revoked: gone, gone: make(map[secret.Hash]bool, len(gone)), daemon: daemon}
	for _, r := range gone {
		next.gone[r.hash] = true
	}
	for _, e := range tokens {
		next.byHash[e.Hash] = e
	}
	if daemon != nil {
		next.byHash[daemon.Hash] = daemon
	}
	return next
}

// Shown is a token whose secret somebody showed.
type Shown struct {
	access.Credential
	Expires  time.Time       // zero if it does not expire
	Standing context.Context // ends when the token is revoked
	// Weak means that the secret is short enough to be guessed by somebody who may try
	// often.
	Weak bool
}

// Check returns the token with this secret. The error is ErrUnknown, ErrExpired or
// ErrRevoked.
func (t *Tokens) Check(shown string, now time.Time) (Shown, error) {
	return t.check(secret.Of(shown), now)
}

// Recall returns the token of a secret that was shown before, given its hash as text. It
// returns the same errors as Check.
func (t *Tokens) Recall(fingerprint string, now time.Time) (Shown, error) {
	h, err := secret.Parse(fingerprint)
	if err != nil {
		return Shown{}, ErrUnknown
	}
	return t.check(h, now)
}

func (t *Tokens) check(h secret.Hash, now time.Time) (Shown, error) {
	b := t.all.Load()
	e := b.byHash[h]
	if e == nil {
		if b.gone[h] {
			return Shown{}, ErrRevoked
		}
		return Shown{}, ErrUnknown
	}
	if !e.Expires.IsZero() && !now.Before(e.Expires) {
		return Shown{}, ErrExpired
	}
	if m := minute(now); e.used.Load() != m {
		e.used.Store(m)
		t.file.Change(usedAfter)
	}
	credential := access.Credential{Kind: access.Token, Name: e.Name, Role: e.Role, Service: e.Service, As: e.As}
	if e.As != "" {
		credential.UID = access.KnownUID(e.UID)
	}
	return Shown{Credential: credential, Expires: e.Expires, Standing: e.Standing, Weak: e.weak}, nil
}

// HasDaemon reports whether the configuration has a token.
func (t *Tokens) HasDaemon() bool { return t.all.Load().daemon != nil }

// Weak reports whether the token of the configuration is short enough to be guessed. No
// other is.
func (t *Tokens) Weak() bool {
	daemon := t.all.Load().daemon
	return daemon != nil && daemon.weak
}

// SetDaemon sets the token of the configuration, which has the role admin. An empty
// secret means that there is none. SetDaemon reports whether the token has changed, and
// whether it is short enough to be guessed.
func (t *Tokens) SetDaemon(text string) (changed, short bool) {
	t.changing.Lock()
	defer t.changing.Unlock()
	b := t.all.Load()
	var next *entry
	if text != "" {
		if next = newEntry(Token{Name: access.DaemonToken, Role: access.Admin}, secret.Of(text)); len(text) < ShortestSecret {
			next.weak = true
		}
	}
	if b.daemon != nil && next != nil && b.daemon.Hash == next.Hash {
		return false, b.daemon.weak
	}
	t.all.Store(b.with(b.byName, b.revoked, next))
	if b.daemon != nil {
		b.daemon.End(ErrRevoked)
	}
	return b.daemon != nil || next != nil, next != nil && next.weak
}

// List returns every token, by name.
func (t *Tokens) List() []Token {
	b := t.all.Load()
	list := make([]Token, 0, len(b.byName)+1)
	for _, e := range b.byName {
		list = append(list, e.token())
	}
	if b.daemon != nil {
		list = append(list, b.daemon.token())
	}
	slices.SortFunc(list, func(a, b Token) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Stands reports whether this very token exists already, with the same name, secret,
// role, service, user and time to live, and has not expired.
func (t *Tokens) Stands(token Token, text string, now time.Time) bool {
	e := t.all.Load().byName[token.Name]
	if token.Service = words.Service(token.Service); e == nil || text == "" || e.Hash != secret.Of(text) || !e.gives(&token) {
		return false
	}
	if e.Expires.IsZero() || token.Expires.IsZero() {
		return e.Expires.Equal(token.Expires)
	}
	longer := token.Expires.Sub(now) - e.Expires.Sub(e.Created) // of which create has cut parts of a second
	return now.Before(e.Expires) && longer.Abs() < time.Second
}

// Create makes a token and returns its secret: the one that was brought, or one of 256
// random bits. It returns when the token is on the disk.
func (t *Tokens) Create(token Token, brought string, now time.Time) (made string, err error) {
	return t.create(token, brought, false, now)
}

// Replace makes a token as Create does. If a token has the same name, Replace revokes
// that one in the same write: after a crash, one of the two exists.
func (t *Tokens) Replace(token Token, brought string, now time.Time) (made string, err error) {
	return t.create(token, brought, true, now)
}

func (t *Tokens) create(token Token, brought string, replace bool, now time.Time) (made string, err error) {
	token.Service = words.Service(token.Service)
	token.Created, token.Used = now.UTC().Truncate(time.Second), time.Time{}
	if !token.Expires.IsZero() {
		token.Expires = token.Expires.UTC().Truncate(time.Second)
	}
	if err := check(token); err != nil {
		return "", err
	}
	if made = brought; made == "" {
		made = Prefix + secret.New()
	} else if err := checkSecret(brought); err != nil {
		return "", err
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	b, h := t.all.Load(), secret.Of(made)
	tokens, gone := b.roomFor(token.Name, now)
	old := tokens[token.Name]
	switch {
	case old != nil && !replace:
		return "", fmt.Errorf("create the token %s: %w: a token has this name", token.Name, ErrTaken)
	case b.byHash[h] != nil && b.byHash[h] != old, b.gone[h]:
		return "", fmt.Errorf("create the token %s: %w: another token has or had this secret", token.Name, ErrTaken)
	case old == nil && len(tokens) >= most:
		return "", fmt.Errorf("create the token %s: %w", token.Name, ErrFull)
	}
	added := newEntry(token, h)
	tokens[token.Name] = added
	if old != nil && old.Hash == h {
		added.used.Store(old.used.Load())
		if shortens := !token.Expires.IsZero() && (old.Expires.IsZero() || token.Expires.Before(old.Expires)); !shortens && old.gives(&token) {
			added.Kept, old = old.Kept, nil // whoever has shown it may go on
		}
	}
	if old != nil && old.Hash != h {
		gone = latest(append(gone, revoked{old.Name, old.Hash, now.UTC().Truncate(time.Second)}))
	}
	next := b.with(tokens, gone, b.daemon)
	if err := t.file.Save(*next); err != nil {
		return "", err
	}
	t.all.Store(next)
	if old != nil {
		old.End(ErrRevoked)
	}
	return made, nil
}

// expiredKept is how long an expired token is listed.
const expiredKept = 30 * 24 * time.Hour

// Listed reports whether the token has not expired long ago.
func (t *Token) Listed(now time.Time) bool {
	return t.Expires.IsZero() || now.Sub(t.Expires) <= expiredKept
}

// roomFor returns copies of the tokens and the revoked tokens of a book. It counts tokens
// that expired long ago as revoked if their room, or the name, is needed, and no others: the
// clock may be ahead for a while.
func (b *book) roomFor(wanted string, now time.Time) (tokens map[string]*entry, gone []revoked) {
	tokens, gone = make(map[string]*entry, len(b.byName)+1), slices.Clone(b.revoked)
	for name, e := range b.byName {
		if !e.Listed(now) && (name == wanted || len(b.byName) >= most) {
			gone = append(gone, revoked{name, e.Hash, now})
			continue
		}
		tokens[name] = e
	}
	return tokens, latest(gone)
}

// latest returns the revoked tokens that are remembered.
func latest(gone []revoked) []revoked { return gone[max(len(gone)-mostRevoked, 0):] }

// Revoke makes a token worthless at once: the context of everybody who has shown it ends.
// It returns when the disk has the change. If the write fails, the token is worthless
// until the daemon restarts.
func (t *Tokens) Revoke(name string, now time.Time) (Token, error) {
	t.changing.Lock()
	defer t.changing.Unlock()
	b := t.all.Load()
	e := b.byName[name]
	if e == nil {
		return Token{}, fmt.Errorf("revoke the token %s: %w", name, ErrMissing)
	}
	tokens := maps.Clone(b.byName)
	delete(tokens, name)
	gone := latest(append(slices.Clone(b.revoked), revoked{name, e.Hash, now.UTC().Truncate(time.Second)}))
	next := b.with(tokens, gone, b.daemon)
	t.all.Store(next) // before the write: the secret may be in wrong hands
	e.End(ErrRevoked)
	if err := t.file.Save(*next); err != nil {
		t.file.Change(0) // Run tries again
		return e.token(), fmt.Errorf("the token %s is refused from now on, but the daemon could not write that down and accepts it again after a restart: %w", name, err)
	}
	return e.token(), nil
}

// usedAfter is how soon Run writes that tokens were used.
const usedAfter = 10 * time.Minute

// Run writes from time to time when tokens were last used, until ctx ends.
func (t *Tokens) Run(ctx context.Context) error { return t.file.Run(ctx, t.saveUsed, nil) }

func (t *Tokens) saveUsed() error {
	t.changing.Lock()
	defer t.changing.Unlock()
	return t.file.Save(*t.all.Load())
}

// check returns an error if something is wrong with a token.
func check(t Token) error {
	switch {
	case !validName(t.Name):
		return &InvalidError{"name", fmt.Sprintf("must be 1 to %d letters, digits, - and _, and begin with a letter or a digit", longestName)}
	case t.Name == access.DaemonToken:
		return &InvalidError{"name", "must not be daemon: that is the name of the token in the configuration"}
	case t.Role < access.Scraper || t.Role > access.Admin:
		return &InvalidError{"role", "must be scraper, viewer, user, operator or admin"}
	case t.Service != "" && (words.TextProblem(t.Service) != "" || words.Service(t.Service) != t.Service):
		return &InvalidError{"service", "is not the name of a service"}
	case t.Service != "" && t.Role > access.User:
		return &InvalidError{"service", "must be absent for an operator or an administrator, who act for all services"}
	case (t.As == "") != (t.UID == 0) || t.UID < 0:
		return &InvalidError{"as", "must be a user other than root"}
	case t.As != "" && t.Role < access.User:
		return &InvalidError{"as", "needs the role user or a higher one: lower roles run nothing"}
	case t.As != "" && t.Service != "":
		return &InvalidError{"as", "cannot stand beside service: a program that runs as the user may act for any service"}
	case !t.Expires.IsZero() && !t.Expires.After(t.Created):
		return &InvalidError{"ttl_seconds", "must be more than a second"}
	}
	return nil
}

func validName(name string) bool {
	if len(name) == 0 || len(name) > longestName {
		return false
	}
	for i, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_') {
			return false
		}
	}
	return true
}

// Sound reports whether a secret could belong to a token: printable ASCII without spaces,
// and not too long.
func Sound(secret string) bool {
	if secret == "" || len(secret) > LongestSecret {
		return false
	}
	return !strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' })
}

// checkSecret returns an error if something is wrong with a secret that a user brings.
func checkSecret(secret string) error {
	switch {
	case !Sound(secret):
		return &InvalidError{"token", fmt.Sprintf("must be printable ASCII without spaces, at most %d characters", LongestSecret)}
	case len(secret) < ShortestSecret:
		return &InvalidError{"token", fmt.Sprintf("must have at least %d characters: openssl rand -base64 32 makes one", ShortestSecret)}
	case distinct(secret) < 8:
		return &InvalidError{"token", "repeats too few different characters: openssl rand -base64 32 makes a better one"}
	}
	return nil
}

// distinct returns the number of different bytes in text.
func distinct(text string) int {
	seen := map[byte]bool{}
	for i := range len(text) {
		seen[text[i]] = true
	}
	return len(seen)
}
