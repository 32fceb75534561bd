package tokens

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/wholefile"
)

// document is the content of the file. Only its owner may read it, although it
// holds no secrets.
type document struct {
	Version int             `json:"version"`
	Tokens  []storedToken   `json:"tokens"`
	Revoked []storedRevoked `json:"revoked,omitempty"` // oldest first
}

type storedToken struct {
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	Service string    `json:"service,omitempty"`
	SHA256  string    `json:"sha256"` // of the secret, in hexadecimal
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Used    time.Time `json:"used,omitzero"`
	By      string    `json:"by,omitempty"`
}

type storedRevoked struct {
	Name   string    `json:"name"`
	SHA256 string    `json:"sha256"`
	At     time.Time `json:"at"`
}

const version = 1

// largest is the largest file that is read, in bytes: far more than all tokens
// take.
const largest = 4 << 20

// Open reads the file at path, or begins one there. It renames a file that it
// cannot understand and begins without tokens, so that nobody gets in by a
// mistake. The note says so; it is empty if all is well.
func Open(path string) (k *Keeper, note string, err error) {
	k = New()
	k.path = path
	text, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the tokens: %w", err)
	}
	b, err := parse(text)
	if err != nil {
		aside := path + ".unreadable"
		return k, fmt.Sprintf("No named token is accepted: the file of the tokens could not be read and is now %s: %v. Make the tokens again, or mend the file, move it back and restart the daemon", aside, err), os.Rename(path, aside)
	}
	k.all.Store(b)
	return k, "", nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, largest+1))
}

// parse reads the content of the file.
func parse(text []byte) (*book, error) {
	if len(text) > largest {
		return nil, fmt.Errorf("it is larger than %d bytes", largest)
	}
	var d document
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields() // a restriction that this berth does not know must not be left out
	if err := decoder.Decode(&d); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("there is text after the object")
	}
	if d.Version != version {
		return nil, fmt.Errorf("it has version %d, and this berth knows version %d", d.Version, version)
	}
	tokens, hashes := map[string]*entry{}, map[hash]bool{}
	for _, s := range d.Tokens {
		e, err := s.entry()
		if err != nil {
			return nil, fmt.Errorf("token %q: %w", s.Name, err)
		}
		if tokens[e.Name] != nil || hashes[e.hash] {
			return nil, fmt.Errorf("token %q: its name or its secret is there twice", s.Name)
		}
		tokens[e.Name], hashes[e.hash] = e, true
	}
	var gone []revoked
	for _, s := range d.Revoked {
		h, err := parseHash(s.SHA256)
		if err != nil {
			return nil, fmt.Errorf("revoked token %q: %w", s.Name, err)
		}
		if hashes[h] {
			return nil, fmt.Errorf("revoked token %q: its secret is there twice", s.Name)
		}
		hashes[h] = true
		gone = append(gone, revoked{s.Name, h, s.At})
	}
	return new(book).with(tokens, latest(gone), nil), nil
}

func (s storedToken) entry() (*entry, error) {
	role, err := access.ParseRole(s.Role)
	if err != nil {
		return nil, err
	}
	h, err := parseHash(s.SHA256)
	if err != nil {
		return nil, err
	}
	t := Token{Name: s.Name, Role: role, Service: s.Service, Created: s.Created, Expires: s.Expires, Used: s.Used, By: s.By}
	if err := check(t); err != nil {
		return nil, err
	}
	return newEntry(t, h), nil
}

func parseHash(text string) (h hash, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(h) {
		return h, errors.New("sha256 is not 64 hexadecimal digits")
	}
	return hash(b), nil
}

// write replaces the file and waits for the disk.
func (k *Keeper) write(b *book) error {
	if k.path == "" {
		return nil
	}
	text, err := b.encode()
	if err == nil {
		err = wholefile.Write(k.path, text)
	}
	if err != nil {
		return fmt.Errorf("write the tokens: %w", err)
	}
	return nil
}

// encode returns the content of the file.
func (b *book) encode() ([]byte, error) {
	d := document{Version: version, Tokens: []storedToken{}}
	for _, name := range slices.Sorted(maps.Keys(b.byName)) {
		e := b.byName[name]
		t := e.token()
		d.Tokens = append(d.Tokens, storedToken{
			Name: t.Name, Role: t.Role.String(), Service: t.Service, SHA256: hex.EncodeToString(e.hash[:]),
			Created: t.Created, Expires: t.Expires, Used: t.Used, By: t.By,
		})
	}
	for _, r := range b.revoked {
		d.Revoked = append(d.Revoked, storedRevoked{Name: r.name, SHA256: hex.EncodeToString(r.hash[:]), At: r.at})
	}
	return json.MarshalIndent(d, "", "  ")
}
