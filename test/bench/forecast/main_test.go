package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-gpu/berth/test/bench/forecast/trace"
)

// The recordings in the repository are forecast as well as docs/guide/heat.md says.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob("../data/*.csv")
	if err != nil || len(files) == 0 {
		t.Fatal("there is no recording")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			recorded, err := trace.Read(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range verdicts(judge(recorded.Every(time.Second))) {
				if !v.holds {
					t.Errorf("%s: %s", v.claim, v.found)
				}
			}
		})
	}
}

func TestCards(t *testing.T) {
	for _, c := range cards {
		t.Run(c.String(), func(t *testing.T) {
			r, err := c.run()
			if err != nil {
				t.Fatal(err)
			}
			if r.share() > reachWithin {
				t.Errorf("reached after %v, told %v wrong after %v", r.after, r.worst, r.at)
			}
		})
	}
}

func TestBadTraces(t *testing.T) {
	for name, text := range map[string]string{
		"too short":    "t_s,temp_c,power_w\n0,40,80\n1,41,80\n",
		"going back":   "t_s,temp_c,power_w\n5,40,80\n1,41,80\n",
		"not a number": "t_s,temp_c,power_w\n5,forty,80\n",
		"only a head":  "t_s,temp_c,power_w\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "trace.csv")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := one(file, time.Second); err == nil {
				t.Error("it is judged")
			}
		})
	}
}
