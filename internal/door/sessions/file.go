package sessions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file"
)

// document is the content of the file. Only its owner may read it, although it
// holds no secrets.
type document struct {
	Version  int      `json:"version"`
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

const version = 1

// Open reads the file at path, or creates one there. It sets a damaged file aside, and
// begins without sessions.
func Open(path string, now time.Time) (*Sessions, *file.Damage) {
	s := New()
	s.path = path
	damage := file.Load(path, "Everybody has to sign in again.", func(text []byte) error {
		all, err := parse(text)
		if err == nil {
			s.byHash = all
			s.prune(now)
		}
		return err
	})
	return s, damage
}

// parse reads the content of the file.
func parse(text []byte) (map[hash]*entry, error) {
	var d document
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields() // an unknown restriction must not be dropped
	if err := decoder.Decode(&d); err != nil {
		return nil, err
	}
	switch {
	case decoder.More():
		return nil, errors.New("there is text after the object")
	case d.Version != version:
		return nil, fmt.Errorf("it has version %d, and this berth knows version %d", d.Version, version)
	case len(d.Sessions) > Most:
		return nil, fmt.Errorf("it has %d sessions, and %d are the most", len(d.Sessions), Most)
	}
	all := map[hash]*entry{}
	for _, s := range d.Sessions {
		e, err := s.entry()
		if err != nil {
			return nil, fmt.Errorf("session %q: %w", s.ID, err)
		}
		if all[e.hash] != nil {
			return nil, fmt.Errorf("session %q: its secret is there twice", s.ID)
		}
		all[e.hash] = e
	}
	return all, nil
}

func (s *stored) entry() (*entry, error) {
	b, err := hex.DecodeString(s.SHA256)
	if err != nil || len(b) != len(hash{}) {
		return nil, errors.New("sha256 is not 64 hexadecimal digits")
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
	return newEntry(Session{ID: s.ID, Owner: o, Begun: s.Begun, Used: s.Used}, hash(b)), nil
}

// save writes the file and waits for the disk.
func (s *Sessions) save() error {
	if s.path == "" {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	text, err := s.encode()
	if err == nil {
		err = file.Replace(s.path, text)
	}
	if err != nil {
		s.unwritten.Store(true)
		return fmt.Errorf("write the sessions: %w", err)
	}
	return nil
}

// encode returns the content of the file.
func (s *Sessions) encode() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = false
	s.unwritten.Store(false)
	d := document{Version: version, Sessions: []stored{}}
	for _, e := range s.byHash {
		kept := stored{
			ID: e.ID, SHA256: hex.EncodeToString(e.hash[:]), Groups: e.Groups, Here: e.Place == access.Here,
			Token: e.Token, Proof: e.Proof, Begun: e.Begun, Used: e.Used,
		}
		if uid, known := e.UID.Get(); known {
			kept.UID = gpu.Some(uid)
		}
		d.Sessions = append(d.Sessions, kept)
	}
	slices.SortFunc(d.Sessions, func(a, b stored) int { return cmp.Or(a.Begun.Compare(b.Begun), cmp.Compare(a.ID, b.ID)) })
	return json.MarshalIndent(d, "", "  ")
}

// How often the file is written.
const (
	changedAfter = time.Second      // after sessions began or ended by themselves
	usedAfter    = 10 * time.Minute // after sessions were used
)

// Run saves sessions until ctx ends.
func (s *Sessions) Run(ctx context.Context) error {
	tick := time.NewTicker(usedAfter)
	defer tick.Stop()
	soon := time.NewTimer(changedAfter)
	soon.Stop()
	defer soon.Stop()
	for {
		select {
		case <-ctx.Done():
			if !s.unsaved() {
				return nil
			}
			return s.save()
		case <-s.changed:
			soon.Reset(changedAfter)
			continue
		case <-soon.C:
		case <-tick.C:
			if !s.unsaved() {
				continue
			}
		}
		if err := s.save(); err != nil {
			soon.Reset(usedAfter) // it tries again
		}
	}
}

// unsaved reports whether a session began, ended or was used since the file was
// written.
func (s *Sessions) unsaved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used || s.unwritten.Load()
}
