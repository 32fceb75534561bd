package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/job/keeper"
)

func registerJobs(s *server) {
	const missing, conflict, down = http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable
	on := func(pattern, id, summary, description string, errors ...int) huma.Operation {
		return on(pattern, "jobs", id, summary, description, errors...)
	}
	request(s, creating(on("POST /api/jobs", "submit", "Run a command under a lease, as the user who asks",
		"The answer comes when the job is on disk. berth then starts it at its turn, whatever becomes of the caller and of this daemon. Only a caller whom the kernel names can submit: "+
			"on the Unix socket from outside of containers, or by a session on the page that began there; and the holder of a token that is bound to a user, as that user.", missing, conflict, down)), s.Desk.Jobs.Submit)
	list := on("GET /api/jobs", "jobs", "All jobs, the newest first", "A job with an array or parameters is one entry, with the counts of its tasks. Of the jobs of others, only operators see the commands, folders and logs.")
	serve(s, list, s.jobs)
	serve(s, on("GET /api/jobs/{id}", "job", "One job with its tasks, or one task", "", missing), s.job)
	for _, change := range []struct {
		to                   desk.JobChange
		id, summary, details string
	}{
		{desk.CancelJob, "cancel-job", "End a job or a task", "What waits never begins. What runs gets SIGTERM, and SIGKILL after optimization.deallocation_timeout."},
		{desk.HoldJob, "hold-job", "Keep a job or a task that waits from beginning", ""},
		{desk.UnholdJob, "unhold-job", "Let a job or a task that is held begin at its turn", ""},
	} {
		serve(s, on("POST /api/jobs/{id}/"+string(change.to), change.id, change.summary, change.details, missing, conflict, down), func(ctx context.Context, in *ofJob[*api.JobAct]) (*answer[api.Job], error) {
			changed, err := s.Desk.Jobs.Change(ctx, askerOf(ctx), in.ID, change.to, given(in.Body).Why)
			return &answer[api.Job]{changed}, err
		})
	}
	serve(s, on("POST /api/jobs/{id}/priority", "prioritize-job", "Give a job another priority", "Owners lower it, operators set it.", missing, conflict, down), func(ctx context.Context, in *ofJob[api.JobChange]) (*answer[api.Job], error) {
		changed, err := s.Desk.Jobs.Prioritize(ctx, askerOf(ctx), in.ID, in.Body)
		return &answer[api.Job]{changed}, err
	})
	serve(s, creating(on("POST /api/jobs/{id}/redo", "redo-job", "Submit a job again, under a new id", "The new job has the command, the folder, the environment and the lease of the old one, and waits for no other job. Only its owner can.", missing, conflict, down)),
		func(ctx context.Context, in *ofJob[*api.JobRedo]) (*answer[api.Job], error) {
			again, err := s.Desk.Jobs.Redo(ctx, askerOf(ctx), in.ID, given(in.Body))
			return &answer[api.Job]{again}, err
		})
	request(s, on("POST /api/jobs/minder", "order", "What the minder of a run has to run", "For the process that the daemon has started for the run, and for nobody else.", missing, conflict, down), func(_ context.Context, by desk.Caller, b api.MinderRequest) (api.MinderOrder, error) {
		return s.Desk.Order(by, b)
	})
	log := on("GET /api/jobs/{id}/log", "job-log", "The log of a job or a task",
		"A process with the rights of the owner reads it. Without follow, the answer has at most the last 64 MiB. With follow, it goes on until the task has ended.", missing, conflict, http.StatusUnprocessableEntity)
	longest := 128
	log.Parameters = []*huma.Param{
		{Name: "id", In: "path", Required: true, Description: "Id of the job or of the task.", Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &longest}},
		{Name: "lines", In: "query", Description: "Only the last so many lines.", Schema: &huma.Schema{Type: huma.TypeInteger}},
		{Name: "follow", In: "query", Description: "Wait for the log, and go on until the task has ended.", Schema: &huma.Schema{Type: huma.TypeBoolean}},
		{Name: "errors", In: "query", Description: "The log of errors, if the job has one of its own.", Schema: &huma.Schema{Type: huma.TypeBoolean}},
	}
	s.raw(log, "text/plain", s.jobLog)
	limitJobs(s.api.OpenAPI())
}

// ofJob has the parameters of a route about one job, and a body.
type ofJob[T any] struct {
	ID   string `path:"id" doc:"Id of the job or of the task." maxLength:"128"`
	Body T
}

type jobsQuery struct {
	Page
	User  []string `query:"user" maxLength:"256" doc:"Only jobs of one of these users, by login name or user id. May be repeated."`
	State []string `query:"state" enum:"held,waiting,starting,running,done,failed,cancelled,timed_out,lost" doc:"Only jobs with a task in one of these states. May be repeated."`
	Since string   `query:"since" maxLength:"64" doc:"Only jobs that have not ended, or ended after this time, as in 2026-11-17T12:00:00Z."`
}

func (s *server) jobs(ctx context.Context, in *jobsQuery) (*listed[jobList], error) {
	q := keeper.Query{Users: in.User, States: in.State, Most: in.most()}
	if _, err := in.resume(jobsList, &q.Before); err != nil {
		return nil, err
	}
	if in.Since != "" {
		since, err := time.Parse(time.RFC3339Nano, in.Since)
		if err != nil {
			p := problems.New(http.StatusUnprocessableEntity, "invalid_request", "The time cannot be read.")
			p.Fields = []api.FieldProblem{{Field: "since", Detail: "is not a time such as 2026-11-17T12:00:00Z"}}
			return nil, p
		}
		q.Since = since
	}
	found, next := s.Desk.Jobs.List(identityOf(ctx).Actor, q)
	all := jobList{jobs: found}
	if next > 0 {
		all.more = in.more(jobsList, next)
	}
	return answerPage(&in.Page, all.more, all)
}

// jobList is an api.Jobs whose jobs are read while it is written: there may be thousands,
// and pages ask for them every few seconds.
type jobList struct {
	jobs iter.Seq[api.Job]
	more api.More
}

// Schema returns the schema of api.Jobs.
func (jobList) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[api.Jobs](), true, "")
}

func (l jobList) write(w io.Writer) error {
	frame, err := asJSON(api.Jobs{Jobs: []api.Job{}, More: l.more})
	if err != nil {
		return err
	}
	before, after, _ := bytes.Cut(frame, []byte("]"))
	return writeJobs(w, before, l.jobs, append([]byte("]"), after...))
}

// wholeJob is an api.Job whose tasks are read while it is written.
type wholeJob struct {
	job   api.Job
	tasks iter.Seq[api.Job] // nil: it has none
}

// Schema returns the schema of api.Job.
func (wholeJob) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[api.Job](), true, "")
}

func (j wholeJob) write(w io.Writer) error {
	text, err := asJSON(j.job)
	if err != nil {
		return err
	}
	if j.tasks == nil {
		_, err = w.Write(append(text, '\n'))
		return err
	}
	return writeJobs(w, append(text[:len(text)-1], `,"list":[`...), j.tasks, []byte("]}"))
}

// writeJobs writes a list of jobs as JSON, and what comes before and after it.
func writeJobs(w io.Writer, before []byte, jobs iter.Seq[api.Job], after []byte) error {
	text, comma := before, false
	for j := range jobs {
		one, err := asJSON(j)
		if err != nil {
			return err
		}
		if comma {
			text = append(text, ',')
		}
		if text, comma = append(text, one...), true; len(text) >= 32<<10 {
			if _, err := w.Write(text); err != nil {
				return err
			}
			text = text[:0]
		}
	}
	_, err := w.Write(append(append(text, after...), '\n'))
	return err
}

// asJSON returns a value as the other answers have it.
func asJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

type jobQuery struct {
	ID   string  `path:"id" doc:"Id of the job or of the task." maxLength:"128"`
	Wait float64 `query:"wait_seconds" minimum:"0" maximum:"300" doc:"Answer when the job has ended, or after this time. The answer then has no list of tasks."`
	Most int     `query:"tasks" minimum:"0" maximum:"100000" default:"100000" doc:"List at most this many of its tasks, those with the smallest numbers."`
}

func (s *server) job(ctx context.Context, in *jobQuery) (*answer[wholeJob], error) {
	by := askerOf(ctx)
	if in.Wait > 0 {
		limited, stop := context.WithTimeout(ctx, time.Duration(in.Wait*float64(time.Second)))
		s.Desk.Jobs.Await(limited, &by, in.ID)
		stop()
	}
	found, err := s.Desk.Jobs.Show(by.Actor, in.ID)
	whole := wholeJob{job: found}
	if found.Tasks != nil && in.Wait == 0 && in.Most > 0 {
		whole.tasks = firsts(s.Desk.Jobs.Tasks(by.Actor, in.ID), in.Most)
	}
	return &answer[wholeJob]{whole}, err
}

// firsts returns the first of some values.
func firsts[T any](all iter.Seq[T], most int) iter.Seq[T] {
	return func(yield func(T) bool) {
		n := 0
		for each := range all {
			if n++; !yield(each) || n == most {
				return
			}
		}
	}
}

// jobLog answers with the log of a job, as text.
func (s *server) jobLog(w http.ResponseWriter, r *http.Request) {
	s.log(w, r, func(by desk.Caller, q desk.LogQuery, out *flowing) error {
		return s.Desk.Jobs.Log(r.Context(), by, r.PathValue("id"), q, out.begin, out)
	})
}

// flowing is an answer whose beginning waits until it is known that there is one.
type flowing struct {
	http.ResponseWriter
	flush bool
	begun bool
}

// begin begins the answer.
func (f *flowing) begin(offset int64) {
	if f.begun {
		return
	}
	f.begun = true
	f.Header().Set("Content-Type", "text/plain; charset=utf-8")
	f.Header().Set("X-Content-Type-Options", "nosniff")
	f.Header().Set("Berth-Log-Offset", strconv.FormatInt(offset, 10))
	f.WriteHeader(http.StatusOK)
	f.flow()
}

func (f *flowing) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	f.flow()
	return n, err
}

func (f *flowing) flow() {
	if f.flush {
		_ = http.NewResponseController(f.ResponseWriter).Flush() // else the reader waits a little
	}
}
