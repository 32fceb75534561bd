package tokens

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/secret"
	"github.com/berth-gpu/berth/internal/file"
)

// document is the content of the file. Only its owner may read it, although it holds no
// secrets. Each token has a line and a checksum of its own, so that damage costs as few
// tokens as possible.
type document struct {
	Version int             `json:"version"`
	Tokens  []storedToken   `json:"tokens"`
	Revoked []storedRevoked `json:"revoked,omitempty"` // oldest first
}

type storedToken struct {
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	Service string    `json:"service,omitempty"`
	As      string    `json:"as,omitempty"`
	UID     int       `json:"uid,omitempty"`
	SHA256  string    `json:"sha256"` // of the secret, in hexadecimal
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Used    time.Time `json:"used,omitzero"`
	By      string    `json:"by,omitempty"`
	CRC     string    `json:"crc32c,omitempty"` // salvage checks it
}

type storedRevoked struct {
	Name   string    `json:"name"`
	SHA256 string    `json:"sha256"`
	At     time.Time `json:"at"`
	CRC    string    `json:"crc32c,omitempty"`
}

const version = 1

// Open reads the file at path, or starts a new one there. It sets a damaged file aside
// and takes only the tokens in it whose own checksum is right: nobody gets more than was
// written down.
func Open(path string) (*Tokens, *file.Damage) {
	t := newTokens(path)
	err := t.file.Read(func(b book) error {
		t.all.Store(&b)
		return nil
	})
	if err == nil {
		return t, nil
	}
	b := t.all.Load()
	found := file.Salvage(path)
	if text, unsealed := file.Unseal(path, found); unsealed != nil || !json.Valid(text) { // an intact file means something that this berth does not know
		b = salvage(found)
		t.all.Store(b)
	}
	damage := t.file.Begin(*b, err)
	damage.Lost = "No named token is accepted. Make the tokens again: berth token create"
	if names := slices.Sorted(maps.Keys(b.byName)); len(names) > 0 {
		damage.Lost = fmt.Sprintf("Of the named tokens, only these are accepted: %s. Make the others again: berth token create", strings.Join(names, ", "))
	}
	return t, damage
}

// UnmarshalText reads the content of the file.
func (b *book) UnmarshalText(text []byte) error {
	var d document
	if err := strictly(text, &d); err != nil {
		return err
	}
	if d.Version != version {
		return file.VersionError(d.Version, version)
	}
	tokens, hashes := map[string]*entry{}, map[secret.Hash]bool{}
	for _, s := range d.Tokens {
		e, err := s.entry()
		if err != nil {
			return fmt.Errorf("token %q: %w", s.Name, err)
		}
		if tokens[e.Name] != nil || hashes[e.Hash] {
			return fmt.Errorf("token %q: its name or its secret is there twice", s.Name)
		}
		tokens[e.Name], hashes[e.Hash] = e, true
	}
	var gone []revoked
	for _, s := range d.Revoked {
		h, err := secret.Parse(s.SHA256)
		if err != nil {
			return fmt.Errorf("revoked token %q: %w", s.Name, err)
		}
		if hashes[h] {
			return fmt.Errorf("revoked token %q: its secret is there twice", s.Name)
		}
		hashes[h] = true
		gone = append(gone, revoked{s.Name, h, s.At})
	}
	*b = *b.with(tokens, latest(gone), nil)
	return nil
}

// salvage reads the tokens of a damaged file whose lines are intact.
func salvage(text []byte) *book {
	tokens, hashes := map[string]*entry{}, map[secret.Hash]bool{}
	var gone []revoked
	for line := range bytes.Lines(text) {
		object, sealed, sound := file.UnsealLine(bytes.TrimRight(line, ",\r\n"))
		if !sealed || !sound {
			continue
		}
		var t storedToken
		if strictly(object, &t) == nil {
			if e, err := t.entry(); err == nil && tokens[e.Name] == nil && !hashes[e.Hash] {
				tokens[e.Name], hashes[e.Hash] = e, true
			}
			continue
		}
		var r storedRevoked
		if strictly(object, &r) == nil {
			if h, err := secret.Parse(r.SHA256); err == nil && !hashes[h] {
				gone, hashes[h] = append(gone, revoked{r.Name, h, r.At}), true
			}
		}
	}
	return new(book).with(tokens, latest(gone), nil)
}

// strictly decodes JSON and refuses unknown fields: a restriction that this berth does
// not know must not be ignored.
func strictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if decoder.More() {
		return errors.New("there is text after the object")
	}
	return nil
}

func (s storedToken) entry() (*entry, error) {
	role, err := access.ParseRole(s.Role)
	if err != nil {
		return nil, err
	}
	h, err := secret.Parse(s.SHA256)
	if err != nil {
		return nil, err
	}
	t := Token{Name: s.Name, Role: role, Service: s.Service, As: s.As, UID: s.UID, Created: s.Created, Expires: s.Expires, Used: s.Used, By: s.By}
	if err := check(t); err != nil {
		return nil, err
	}
	return newEntry(t, h), nil
}

// MarshalText returns the content of the file.
func (b book) MarshalText() ([]byte, error) {
	var tokens, gone []any
	for _, name := range slices.Sorted(maps.Keys(b.byName)) {
		e := b.byName[name]
		t := e.token()
		tokens = append(tokens, storedToken{
			Name: t.Name, Role: t.Role.String(), Service: t.Service, As: t.As, UID: t.UID, SHA256: e.Hash.String(),
			Created: t.Created, Expires: t.Expires, Used: t.Used, By: t.By,
		})
	}
	for _, r := range b.revoked {
		gone = append(gone, storedRevoked{Name: r.name, SHA256: r.hash.String(), At: r.at})
	}
	text := fmt.Appendf(nil, `{"version":%d,"tokens":[`, version)
	text, err := appendLines(text, tokens)
	if err != nil {
		return nil, err
	}
	if text, err = appendLines(append(text, `],"revoked":[`...), gone); err != nil {
		return nil, err
	}
	return append(text, "]}\n"...), nil
}

// appendLines appends the elements of a list, each on a line with a checksum.
func appendLines(text []byte, list []any) ([]byte, error) {
	for i, each := range list {
		object, err := json.Marshal(each)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(text, '\n'), file.SealLine(object)...)
	}
	return append(text, '\n'), nil
}
