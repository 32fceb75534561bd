package file

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestSealLine(t *testing.T) {
	const object = `{"name":"ci","sha256":"00ff"}`
	line := SealLine([]byte(object))
	var read struct{ Name, SHA256 string }
	if err := json.Unmarshal(line, &read); err != nil || read.Name != "ci" || read.SHA256 != "00ff" {
		t.Errorf("%s reads as %+v, %v", line, read, err)
	}
	if got, sealed, sound := UnsealLine(line); string(got) != object || !sealed || !sound {
		t.Errorf("%s, %v, %v", got, sealed, sound)
	}
	for _, before := range []string{object, "", "}", `{"crc32c":""}`} {
		if got, sealed, sound := UnsealLine([]byte(before)); string(got) != before || sealed || !sound {
			t.Errorf("a line of before: %s, %v, %v", got, sealed, sound)
		}
	}
	for i := range line {
		for bit := range 8 {
			flipped := bytes.Clone(line)
			flipped[i] ^= 1 << bit
			if got, sealed, sound := UnsealLine(flipped); sealed && sound {
				t.Errorf("bit %d of byte %d is not noticed: %s", bit, i, got)
			} else if sound && i < len(object)-1 { // what it says is as it was
				t.Errorf("bit %d of byte %d passes as a line of before: %s", bit, i, got)
			}
		}
	}
}
