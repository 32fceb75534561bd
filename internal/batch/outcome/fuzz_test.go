package outcome

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FuzzJournal resumes from any journal and any file of outcomes. A run refuses
// them, or goes on and ends with every record once. The lines get their checksums
// here: damage without a fitting one is never read.
func FuzzJournal(f *testing.F) {
	const head = `{"header":{"berth_batch":1,"input":"the input","format":"jsonl","packing":"none"}}`
	for _, seed := range []string{
		head + "\n" + `{"commit":{"bytes":10,"frames":[0,1,10]}}`,
		head + "\n" + `{"commit":{"bytes":20,"failed":1,"frames":[0,2,20]}}` + "\n" + `{"complete":true}`,
		head + "\n" + `{"commit":{"bytes":0,"frames":[0,9000000000000000000,0]}}`,
		head + "\n" + `{"commit":{"bytes":-1,"frames":[-1,1,5]}}`,
		head + "\n" + `{"commit":{"bytes":5,"frames":[9223372036854775807,2,5,1]}}`,
		head + "\n" + `{"commit":{"bytes":5,"failed":-3,"frames":[0,-1,5]}}`,
		head + "\n" + head + "\n" + `{"commit":{"bytes":4,"frames":[0,1,-4,1,1,8],"columns":["a"]}}`,
		`{"header":{"berth_batch":2}}`, `{}`, "", `{"complete":true}`,
	} {
		outcomes := []byte("{\"id\":0}\n{\"id\":1}\n")
		f.Add([]byte(seed), outcomes, false)
		f.Add([]byte(strings.ReplaceAll(seed, `"none"`, `"none","ordered":true`)), outcomes, true)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text, outcomes []byte, ordered bool) {
		path := filepath.Join(dir, "out.jsonl")
		if err := errors.Join(os.RemoveAll(path), os.RemoveAll(path+folderEnding), os.Mkdir(path+folderEnding, 0o700)); err != nil {
			t.Fatal(err)
		}
		var lines []byte
		for line := range bytes.Lines(text) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			lines = fmt.Appendf(lines, "%08x %s\n", crc32.Checksum(line, castagnoli), line)
		}
		if err := errors.Join(os.WriteFile(filepath.Join(path+folderEnding, journalName), lines, 0o600), os.WriteFile(filepath.Join(path+folderEnding, logName), outcomes, 0o600)); err != nil {
			t.Fatal(err)
		}
		p, err := Claim(path, Shape{Ordered: ordered}, false)
		if err != nil {
			return
		}
		l, err := p.Begin(nil, json.RawMessage(input), same)
		if err != nil {
			_ = p.Close()
			return
		}
		defer l.Close()
		done, failed := l.Counts()
		if done < 0 || failed < 0 || failed > done {
			t.Fatalf("%d of %d outcomes failed", failed, done)
		}
		const total = 5
		if l.Complete() || done > total {
			return
		}
		for i := range int64(total) {
			if !l.Done(i) {
				if err := l.Commit([]Outcome{result(i)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := l.Finish(total); err != nil {
			return // it has outcomes of records that do not exist, or of other bytes
		}
		if ordered && done == 0 && !slices.Equal(content(t, path), wanted(total)) {
			t.Errorf("the output is %q", content(t, path))
		}
	})
}
