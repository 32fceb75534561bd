package file

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestSeal(t *testing.T) {
	for _, text := range []string{"", "{}", "first\nsecond\n", "# a comment\n"} {
		if got, err := Unseal("tokens.json", Seal("tokens.json", []byte(text))); err != nil || string(got) != text {
			t.Errorf("%q was read as %q, %v", text, got, err)
		}
	}
	before := "{\"version\": 1}" // as a berth without checksums wrote it
	if got, err := Unseal("tokens.json", []byte(before)); err != nil || string(got) != before {
		t.Errorf("a file of before was read as %q, %v", got, err)
	}
}

// Every single bit that flips, and every byte that is missing at the end, is
// noticed, unless what flips is the mark itself: then the text is whole, and its
// reader decides.
func TestEveryFlipIsNoticed(t *testing.T) {
	text := []byte("gpu:\n  temp_optimal: 61\n")
	whole := Seal("config.yaml", text)
	for i := range whole {
		for bit := range 8 {
			file := bytes.Clone(whole)
			file[i] ^= 1 << bit
			got, err := Unseal("config.yaml", file)
			if i < len(mark) {
				if err != nil || !bytes.Equal(got, file) {
					t.Errorf("bit %d of byte %d: %q, %v", bit, i, got, err)
				}
			} else if err == nil {
				t.Errorf("bit %d of byte %d is not noticed", bit, i)
			}
		}
		if got, err := Unseal("config.yaml", whole[:i]); err == nil {
			t.Errorf("the first %d bytes are read as %q", i, got)
		}
	}
	if got, err := Unseal("config.yaml", append(whole, '\n')); err == nil {
		t.Errorf("with one byte more it is read as %q", got)
	}
	if _, err := Unseal("other.yaml", whole); err == nil || !strings.Contains(err.Error(), "config.yaml") {
		t.Errorf("the text of another file: %v", err)
	}
}

// A file that cannot be set aside is told of all the same.
func TestDamageThatStays(t *testing.T) {
	d := SetAside(filepath.Join(t.TempDir(), "gone"), "", nil, errors.New("it is bad"))
	if d.Aside != "" || !strings.Contains(d.String(), "could not be set aside: it is bad") {
		t.Errorf("it says %v", d)
	}
}
