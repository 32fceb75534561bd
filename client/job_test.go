package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// WaitJob asks again while the job runs, and while the daemon is away; it gives up at a
// refusal, and at once if there never was a daemon.
func TestWaitJob(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []string // a state, a code of a refusal in brackets, "" for a broken connection, - for none
		state   string
		failed  bool
	}{
		{"it has ended", []string{"done"}, "done", false},
		{"it runs for a while", []string{"waiting", "starting", "running", "parked", "lost"}, "lost", false},
		{"the daemon restarts", []string{"running", "", "", "", "failed"}, "failed", false},
		{"it goes twice", []string{"running", "", "running", "", "timed_out"}, "timed_out", false},
		{"the job is forgotten", []string{"running", "(unknown_job)"}, "", true},
		{"the daemon is killed before it answers", []string{"", "running", "done"}, "done", false},
		{"no daemon", []string{"-"}, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				answers := Through(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					answer := c.answers[asked-1]
					if answer[0] == '(' {
						w.Header().Set("Content-Type", "application/problem+json")
						w.WriteHeader(http.StatusNotFound)
						_ = json.NewEncoder(w).Encode(api.Problem{Status: http.StatusNotFound, Code: answer})
						return
					}
					_ = json.NewEncoder(w).Encode(api.Job{ID: "job-7", State: answer})
				}))
				daemon, err := New(Options{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					switch asked++; c.answers[asked-1] {
					case "":
						return nil, io.ErrUnexpectedEOF
					case "-":
						return nil, syscall.ECONNREFUSED
					}
					return answers.RoundTrip(r)
				})})
				if err != nil {
					t.Fatal(err)
				}
				defer daemon.Close()
				job, err := daemon.WaitJob(t.Context(), "job-7")
				if job.State != c.state && err == nil || (err != nil) != c.failed || asked != len(c.answers) {
					t.Errorf("state %q, error %v after %d answers; want %q", job.State, err, asked, c.state)
				}
			})
		})
	}
}

// A daemon that answers at once, because it is older or the job changes its state all the
// time, is asked once a second.
func TestWaitJobIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, start := 0, time.Now()
		daemon, err := New(Options{Transport: Through(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			state := "running"
			if asked++; asked == 10 {
				state = "done"
			}
			_ = json.NewEncoder(w).Encode(api.Job{ID: "job-7", State: state})
		}))})
		if err != nil {
			t.Fatal(err)
		}
		defer daemon.Close()
		if _, err := daemon.WaitJob(t.Context(), "job-7"); err != nil || time.Since(start) < 9*time.Second {
			t.Errorf("error %v after %v", err, time.Since(start))
		}
	})
}

// fullDisk is a writer that takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A log that is followed has no end, and its reader leaves when its writer fails.
func TestLogOfAWriterThatFails(t *testing.T) {
	left := make(chan struct{})
	path := serveUnix(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("a line\n"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	}))
	c, err := New(Options{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.JobLog(t.Context(), "7", LogQuery{Follow: true}, fullDisk{}); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	<-left
}
