package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/secret"
	"github.com/berth-gpu/berth/internal/file"
)

// document is the content of the file. Only its owner may read it, although it
// holds no secrets.
type document struct {
	Version  int      `json:"version,omitzero"` // package file checks and writes it
	Sessions []stored `json:"sessions"`
}

type stored struct {
	ID     string       `json:"id"`
	SHA256 string       `json:"sha256"` // of the secret, in hexadecimal
	UID    gpu.Opt[int] `json:"uid,omitzero"`
	Groups []int        `json:"groups"` // null if not known
	Here   bool         `json:"here,omitempty"`
	Token  string       `json:"token,omitempty"`
	Proof  string       `json:"token_sha256,omitempty"`
	Begun  time.Time    `json:"begun"`
	Used   time.Time    `json:"used"`
}

// New returns an empty Sessions without a file.
func New() *Sessions { return newSessions("") }

func newSessions(path string) *Sessions {
	return &Sessions{byHash: map[secret.Hash]*entry{}, file: file.NewState[document](path, file.StateOptions{
		What: "the sessions", Version: 1, Strict: true, Lost: "Everybody has to sign in again.",
	})}
}

// Open reads the file at path, or creates one there. It sets a damaged file aside, and
// begins without sessions.
func Open(path string, now time.Time) (*Sessions, *file.Damage) {
	s := newSessions(path)
	damage := s.file.Load(func(d document) error {
		all, err := d.entries()
		if err == nil {
			s.byHash = all
			s.prune(now)
		}
		return err
	})
	return s, damage
}

// entries returns the sessions of the file.
func (d *document) entries() (map[secret.Hash]*entry, error) {
	if len(d.Sessions) > Most {
		return nil, fmt.Errorf("it has %d sessions, and %d are the most", len(d.Sessions), Most)
	}
	all := map[secret.Hash]*entry{}
	for _, s := range d.Sessions {
		e, err := s.entry()
		if err != nil {
			return nil, fmt.Errorf("session %q: %w", s.ID, err)
		}
		if all[e.Hash] != nil {
			return nil, fmt.Errorf("session %q: its secret is there twice", s.ID)
		}
		all[e.Hash] = e
	}
	return all, nil
}

func (s *stored) entry() (*entry, error) {
	h, err := secret.Parse(s.SHA256)
	if err != nil {
		return nil, err
	}
	o := Owner{Groups: s.Groups, Token: s.Token, Proof: s.Proof}
	uid, known := s.UID.Get()
	switch {
	case known && uid < 0:
		return nil, errors.New("uid is below 0")
	case !known && s.Proof == "":
		return nil, errors.New("it has neither a user nor a token")
	case (s.Token == "") != (s.Proof == ""):
		return nil, errors.New("token and token_sha256 belong together")
	case s.ID == "" || s.Begun.IsZero() || s.Used.IsZero():
		return nil, errors.New("id, begun and used must be there")
	}
	if known {
		o.UID = access.KnownUID(uid)
	}
	if s.Here {
		o.Place = access.Here
	}
	return &entry{Session{ID: s.ID, Owner: o, Begun: s.Begun, Used: s.Used}, secret.Keep(h)}, nil
}

// save writes the file and waits for the disk.
func (s *Sessions) save() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.file.Save(s.document())
}

// document returns the content of the file.
func (s *Sessions) document() document {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := document{Sessions: []stored{}}
	for _, e := range s.byHash {
		kept := stored{
			ID: e.ID, SHA256: e.Hash.String(), Groups: e.Groups, Here: e.Place == access.Here,
			Token: e.Token, Proof: e.Proof, Begun: e.Begun, Used: e.Used,
		}
		if uid, known := e.UID.Get(); known {
			kept.UID = gpu.Some(uid)
		}
		d.Sessions = append(d.Sessions, kept)
	}
	slices.SortFunc(d.Sessions, func(a, b stored) int { return cmp.Or(a.Begun.Compare(b.Begun), cmp.Compare(a.ID, b.ID)) })
	return d
}

// How soon the file is written.
const (
	changedAfter = time.Second      // after sessions began or ended by themselves
	usedAfter    = 10 * time.Minute // after sessions were used
)

// Run saves sessions until ctx ends.
func (s *Sessions) Run(ctx context.Context) error { return s.file.Run(ctx, s.save, nil) }
