package tui

import (
	"fmt"
	"slices"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/term"
	"github.com/berth-gpu/berth/internal/text/words"
)

// allJobs returns the jobs that run, wait or have just ended.
func (s *machine) allJobs() []api.Job {
	if s.facts.Jobs == nil {
		return nil
	}
	return s.facts.Jobs.Jobs
}

// jobRows returns the jobs that match the filter: those that run, those that wait, those
// that have ended.
func (s *State) jobRows() []api.Job {
	var list []api.Job
	for _, j := range s.allJobs() {
		if s.matches(j.ID, j.User, j.Service, j.State, j.Cause, j.Lease) {
			list = append(list, j)
		}
	}
	slices.SortStableFunc(list, view.CompareJobs)
	return list
}

func (s *State) jobColumns() []column[api.Job] {
	return columnsOf(s.jobs, view.JobColumns(s.indexes(), s.Now), itself, []column[api.Job]{
		{title: "ID", name: "JOBS " + s.count(len(s.jobs), len(s.allJobs())), least: 14, first: true, tone: strong},
		{title: "USER", least: 7, most: 14, drop: 3},
		{title: "STATE", least: 9, most: 9},
		{title: "GPU", least: 4, most: 8, drop: 2},
		{title: "GiB", least: 5, most: 6, drop: 4},
		{title: "TIME", least: 6, most: 6, drop: 1},
		{title: "NOTE", name: "WHY", least: 16, most: 400, drop: 4, tone: faint},
	})
}

// chosenJob returns the chosen job, or nil if none is chosen.
func (s *State) chosenJob() *api.Job {
	key := s.chosenKey(Jobs)
	return s.jobWith(func(j *api.Job) bool { return key != "" && j.ID == key })
}

// jobOf returns the job that berth runs under a lease, or nil if there is none.
func (s *machine) jobOf(l *api.Lease) *api.Job {
	return s.jobWith(func(j *api.Job) bool {
		return !j.Over() && j.Lease == l.ID && j.User == l.Holder.User && j.Tasks == nil
	})
}

func (s *machine) jobWith(is func(*api.Job) bool) *api.Job {
	return find(s.allJobs(), is)
}

// jobDetail writes everything about a job.
func (s *State) jobDetail(j api.Job, width int) []line {
	said := (&view.Job{Job: j, Indexes: s.indexes()}).Lines(term.Screen{Width: width - 3, Now: s.Now})
	return append([]line{{{" Job " + plain(j.ID), chosen}}, {}}, block(said)...)
}

// askJob asks whether to cancel a job, and says what becomes of whose programs.
func (s *State) askJob(verb string, j *api.Job) {
	who := plain(j.ID) + " of " + plain(j.User)
	switch {
	case verb == "release":
		s.say(warning, "A job is not released but cancelled, with c: berth runs its program.")
		return
	case verb != "cancel":
		s.say(warning, "That is not for jobs. c cancels one.")
		return
	case j.Over():
		s.say(warning, who+" has ended already.")
		return
	}
	ends := "The command that berth runs for " + plain(j.User) + ", and all that it started, get SIGTERM, and SIGKILL if they do not end in time. Then its lease ends."
	never := "It leaves the queue: its command is never started. No program ends."
	var text []string
	switch t := j.Tasks; {
	case t != nil && t.Running > 0:
		text = append(text, fmt.Sprintf("It has %s, of which %d run. ", words.Count(t.Total, "task"), t.Running)+"The commands that berth runs for "+plain(j.User)+", and all that they started, get SIGTERM, and SIGKILL if they do not end in time. Then their leases end. The tasks that wait are never started.")
	case j.State == "waiting" || j.State == "held" || t != nil:
		text = append(text, never)
	default:
		text = append(text, ends)
	}
	if len(j.Command) > 0 {
		text = append(text, "Its command: "+plain(view.ShellLine(j.Command)))
	}
	s.dialog = &dialog{title: "Cancel job " + who + "?", act: &Act{Verb: "cancel", User: j.User, Job: j.ID, About: who},
		text: append(text, "The same: berth cancel "+plain(words.Shell(j.ID)))}
}
