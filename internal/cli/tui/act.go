package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/text/words"
)

// Act is a request to the daemon. It names a lease by its user, its id and its fence,
// so that it cannot mean another lease.
type Act struct {
	Verb    string // release, cancel, park, resume, drain, undrain, start, stop or restart
	User    string
	ID      string
	Fence   uint64 // 0 for a waiting request
	GPU     string // UUID of the device to drain
	Service string // to start, stop or restart
	Job     string // to cancel
	About   string // the object of the act, in words
}

// dialog asks before an act, or reports its result.
type dialog struct {
	title string
	text  []string // paragraphs
	act   *Act     // nil if there is nothing to decide
	bad   bool
}

// pressAct handles a key that changes something: it asks first.
func (s *State) pressAct(key string) {
	verb := map[string]string{"r": "release", "c": "cancel", "p": "park", "u": "resume", "d": "drain"}[key]
	service, request, job, lease, process := s.chosenService(), s.chosenRequest(), s.chosenJob(), s.chosenLease(), s.chosenProcess()
	switch {
	case verb == "":
	case s.Several:
		s.say(warning, "On several machines berth top only looks. To act, go to the node, or use --url.")
	case s.Local:
		s.say(warning, "No daemon runs, so there is nothing to "+verb+". Start one: berth serve")
	case s.lost != nil:
		s.say(warning, "The daemon does not answer, so it cannot "+verb+" anything now.")
	case verb == "drain":
		s.askDrain()
	case service != nil:
		s.askService(key, service)
	case request != nil:
		s.askRequest(verb, request)
	case job != nil:
		s.askJob(verb, job)
	case lease == nil && process != nil && process.pid != 0:
		s.say(warning, fmt.Sprintf("It runs under no lease, so berth does not end it. berth adopt --pid %d puts it under one; kill %d ends it.", process.pid, process.pid))
	case lease == nil:
		s.say(warning, "Choose a lease first: "+key+" is for leases. Tab goes to them.")
	case verb == "cancel" && s.jobOf(lease) != nil:
		s.askJob(verb, s.jobOf(lease))
	default:
		s.askLease(verb, lease)
	}
}

// askDrain asks whether to drain the chosen device, or to end its drain.
func (s *State) askDrain() {
	d, ok := s.chosenDevice()
	if !ok {
		s.say(warning, "Choose a GPU first: d is for GPUs. Tab goes to them.")
		return
	}
	label := d.Device.Label()
	if d.Drain != nil {
		s.dialog = &dialog{title: "Use " + label + " again?", act: &Act{Verb: "undrain", GPU: d.Device.UUID, About: label},
			text: []string{label + " is drained. The daemon will grant leases on it again. If it is not well, it stays closed until it is."}}
		return
	}
	n := 0
	if s.facts.Leases != nil {
		for i := range s.facts.Leases.Leases {
			if on(&s.facts.Leases.Leases[i], d.Device.UUID) {
				n++
			}
		}
	}
	goes := "No lease is there now."
	if n > 0 {
		goes = fmt.Sprintf("%s there %s on to %s end.", words.Count(n, "lease"), words.Form(n, "goes", "go"), words.Form(n, "its", "their"))
	}
	s.dialog = &dialog{title: "Drain " + label + "?", act: &Act{Verb: "drain", GPU: d.Device.UUID, About: label},
		text: []string{goes + " The daemon grants no new leases on " + label + ", also after a restart, until somebody ends that (d again, or berth undrain). Requests that fit nowhere else wait."}}
}

// on reports whether a lease is on a device.
func on(l *api.Lease, uuid string) bool {
	return slices.ContainsFunc(l.Parts, func(p api.LeasePart) bool { return p.GPU == uuid })
}

// askRequest asks whether to withdraw a request.
func (s *State) askRequest(verb string, w *api.Waiting) {
	if verb != "release" && verb != "cancel" || w.For != "" {
		s.say(warning, "A request that waits can only be withdrawn, with r; one for a lease that there is, only there.")
		return
	}
	who := plain(w.ID) + " of " + plain(w.Holder.User)
	s.dialog = &dialog{title: "Withdraw " + who + "?", act: &Act{Verb: "release", User: w.Holder.User, ID: w.ID, About: who},
		text: []string{"The request for " + view.Amount(w.Memory, w.Slots) + " leaves the queue. The program that waits for it is refused. If it is granted meanwhile, a program that runs keeps its lease."}}
}

// askLease asks whether to perform an act on a lease, and says what will happen.
func (s *State) askLease(verb string, l *api.Lease) {
	who := plain(l.ID)
	if l.Holder.User != "" {
		who += " of " + plain(l.Holder.User)
	}
	holds := plain(s.indexes().Had(*l))
	act := &Act{Verb: verb, User: l.Holder.User, ID: l.ID, Fence: l.Fence, About: who}
	text := ""
	switch {
	case verb == "release":
		text = "The lease ends: it gives back " + holds + "."
		if n := len(l.Processes); n > 0 {
			text += fmt.Sprintf(" %s %s on, and what %s counts as used under no lease.", words.Count(n, "process"), words.Form(n, "runs", "run"), words.Form(n, "it uses", "they use"))
		} else {
			text += " Its programs, if there are any, run on under no lease."
		}
	case verb == "cancel" && l.Cancelled != nil:
		s.say(warning, who+" is being ended already.")
		return
	case verb == "cancel":
		s.dialog = &dialog{title: "Cancel " + who + "?", act: act, text: []string{
			"The programs of " + cmp.Or(plain(l.Holder.User), "its holder") + " under it get SIGTERM, and SIGKILL after optimization.deallocation_timeout. Then the lease ends: it gives back " + holds + ".",
			s.programs(l), "The same: berth cancel " + plain(words.Shell(l.Holder.User+"/"+l.ID)),
		}}
		return
	case verb == "park" && l.State != "active", verb == "resume" && l.State != "parked":
		s.say(warning, fmt.Sprintf("%s is %s, so there is nothing to %s.", who, l.State, verb))
		return
	case verb == "park":
		text = "Its memory moves from the GPU to the memory of the machine, and its programs stand still until it is resumed. It gives back " + holds + " meanwhile."
	case verb == "resume":
		text = "Its memory moves back to the GPU, and its programs go on. It needs " + holds + ", and waits for room like every request."
	}
	s.dialog = &dialog{title: strings.ToUpper(verb[:1]) + verb[1:] + " " + who + "?", text: []string{text}, act: act}
}

// programs names the programs of a lease that an act ends, as far as the caller sees them.
func (s *State) programs(l *api.Lease) string {
	var list []string
	if l.Holder.PID != 0 {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %d", l.Holder.Name, l.Holder.PID)))
	}
	for _, p := range l.Processes {
		if p.PID != 0 && p.PID != l.Holder.PID {
			list = append(list, strings.TrimSpace(fmt.Sprintf("%s %d", p.Name, p.PID)))
		}
	}
	if len(list) == 0 {
		return "Which programs these are, only its user and operators see."
	}
	return "Its programs: " + plain(words.Few(list, 6)) + "."
}

// answer handles the key that answers a dialog.
func (s *State) answer(key string) Want {
	asked := s.dialog
	switch {
	case asked.act == nil:
		s.dialog = nil
	case key == "y" || key == "Y":
		s.dialog = nil
		s.working = asked.act.Verb + " " + asked.act.About
		return Want{Act: asked.act}
	case key == "n" || key == "N" || key == "esc" || key == "q":
		s.dialog = nil
		s.say(ordinary, "Nothing was changed.")
	}
	return Want{}
}

// Done takes the result of an act: what the daemon did, or why it refused.
func (s *State) Done(a Act, did string, refused error) {
	s.working = ""
	if refused == nil {
		s.say(good, did)
		s.settle()
		return
	}
	s.dialog = &dialog{title: "Cannot " + a.Verb + " " + a.About, text: []string{plain(refused.Error())}, bad: true}
	if next, hinted := refused.(interface{ Hint() string }); hinted && next.Hint() != "" {
		s.dialog.text = append(s.dialog.text, plain(next.Hint()))
	}
}
