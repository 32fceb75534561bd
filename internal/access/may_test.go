package access

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestMay holds who may do what: every actor, every verb, every object.
func TestMay(t *testing.T) {
	socket := func(user string, uid int, role Role) Actor {
		return Actor{User: user, UID: uid, Door: Socket, Role: role}
	}
	actors := []struct {
		name  string
		actor Actor
	}{
		{"nobody", Actor{}},
		{"stranger", Actor{User: "unknown", UID: NoUID, Door: TCP}},
		{"scraper", Actor{User: "token:prometheus", UID: NoUID, Token: "prometheus", Door: TCP, Role: Scraper}},
		{"viewer", socket("unknown", NoUID, Viewer)},
		{"vera", socket("vera", 1004, Viewer)},
		{"ada", socket("ada", 1000, User)},
		{"eve", socket("eve", 1001, User)},
		{"mallory", socket("token", 1003, User)}, // whose login name is token,
		{"olga", socket("olga", 1005, Operator)},
		{"root", socket("root", 0, Admin)},
		{"token", Actor{User: "token", UID: NoUID, Token: DaemonToken, Door: TCP, Role: Admin}},
		{"ci", Actor{User: "token:ci", UID: NoUID, Token: "ci", Door: TCP, Role: User}},
		{"daemon", Daemon()},
	}
	objects := []struct {
		name   string
		object Object
		owners string // who owns it, of the actors
	}{
		{"the machine", Object{}, "everybody"},
		{"a lease of ada", Of(Held, 1000, "ada"), "ada"},
		{"a lease of another ada", Of(Held, 1002, "ada"), ""},
		{"a lease of vera", Of(Held, 1004, "vera"), "vera"},
		{"a request of ada", Of(Asked, 1000, "ada"), "ada"},
		{"a lease of a token", Of(Held, NoUID, "token"), "token"},
		{"a lease of nobody", Of(Held, NoUID, ""), "daemon"},
		{"a process of ada", Of(Process, 1000, ""), "ada"},
		{"a process of root", Of(Process, 0, ""), "nobody root"},
		{"a batch of ada", Named(Batch, "ada"), "ada"},
		{"a batch of a token", Named(Batch, "token"), "mallory"},
		{"a lease of the token ci", Of(Held, NoUID, "token:ci"), "ci"},
		{"a batch of the token ci", Named(Batch, "token:ci"), "ci"},
		{"a batch of the certificate ci", Named(Batch, "cert:ci"), ""},
		{"an event about nobody", Named(Happening, ""), ""},
		{"the runs of eve", Named(Measured, "eve"), "eve"},
		{"all that there is", Everything(), ""},
	}
	anybody, scrapes, looks, uses := " probe sign-in ", " scrape ", " look front ", " name lease submit report mind "
	operates, administers := " scope admit revoke precede configure monitor drain check acknowledge hook ", " exceed govern entrust audit backup "
	for _, a := range actors {
		for _, o := range objects {
			for _, v := range Verbs() {
				word, role := " "+v.String()+" ", a.actor.Role
				owns := o.owners == "everybody" || slices.Contains(strings.Fields(o.owners), a.name)
				want := false
				switch {
				case strings.Contains(anybody, word):
					want = true
				case strings.Contains(scrapes, word):
					want = role >= Scraper
				case strings.Contains(looks, word):
					want = role >= Viewer
				case strings.Contains(uses, word):
					want = role >= User
				case strings.Contains(operates, word):
					want = role >= Operator
				case strings.Contains(administers, word):
					want = role == Admin
				case word == " sign-out ":
					want = role == Admin || role >= Viewer && owns
				default: // what is done to somebody's thing
					want = role >= Operator || role >= User && owns || word == " inspect " && role == Viewer && owns
				}
				err := May(a.actor, v, o.object)
				if (err == nil) != want {
					t.Errorf("%s may %s %s: %v, want %v", a.name, v, o.name, err, want)
				}
				var refusal *Refusal
				if err != nil && (!errors.As(err, &refusal) || err.Error() == "") {
					t.Errorf("%s may not %s %s, and it does not say why: %v", a.name, v, o.name, err)
				}
				high := strings.Contains(operates+administers, word)
				if notYours := !high && (role >= User || (word == " inspect " || word == " sign-out ") && role == Viewer); err != nil && errors.Is(err, ErrNotYours) != notYours {
					t.Errorf("%s may not %s %s because %v", a.name, v, o.name, err)
				}
			}
		}
	}
}

func TestNobodyMayDoWhatHasNoRule(t *testing.T) {
	for _, v := range []Verb{-1, 0, Verb(len(rules))} {
		if err := May(Daemon(), v, Object{}); err == nil || v.String() != "none" {
			t.Errorf("the daemon may %v", v)
		}
	}
	for _, v := range Verbs() {
		if rules[v].name == "" {
			t.Errorf("verb %d has no rule", int(v))
		}
	}
}

func TestRefusalNamesTheOwner(t *testing.T) {
	eve := Actor{User: "eve", UID: 1001, Role: User}
	for want, o := range map[string]Object{
		"it belongs to somebody else: ada; its owner and the role operator may do this": Of(Held, 1000, "ada"),
		"it belongs to somebody else; its owner and the role operator may do this":      Of(Process, 1000, ""),
	} {
		if err := May(eve, Release, o); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// May is asked several times for every lease.
func TestAskingCostsNoMemory(t *testing.T) {
	ada := Actor{User: "ada", UID: 1000, Role: User}
	if n := testing.AllocsPerRun(100, func() {
		_, _, _ = May(ada, Exceed, Object{}), May(ada, Precede, Object{}), May(ada, Release, Of(Held, 1000, "ada"))
	}); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
}

// Every refusal names the role that would do.
func TestRefusalsNameARole(t *testing.T) {
	for role := Stranger; role <= Operator; role++ {
		for _, v := range Verbs() {
			a := Actor{User: "ada", UID: 1000, Role: role}
			err := May(a, v, Everything())
			var refusal *Refusal
			if err == nil || !errors.As(err, &refusal) {
				continue
			}
			if refusal.Needs <= role || !strings.Contains(err.Error(), "role "+refusal.Needs.String()) {
				t.Errorf("%v may not %v, and needs %v: %v", role, v, refusal.Needs, err)
			}
			if a.Role = refusal.Needs; refusal.Reason == TooLow && errors.As(May(a, v, Object{}), &refusal) {
				t.Errorf("%v may not %v either", a.Role, v)
			}
		}
	}
}

// Least names the roles with which May begins to say yes.
func TestLeast(t *testing.T) {
	if all := Verbs(); len(all) != len(rules)-1 || all[0] != Probe || all[len(all)-1] != Backup {
		t.Errorf("the verbs are %v", all)
	}
	for _, v := range Verbs() {
		own, others := v.Least()
		for role := Stranger; role <= Admin; role++ {
			a := Actor{User: "ada", UID: 1000, Role: role}
			if may := May(a, v, Object{}) == nil; may != (role >= own) {
				t.Errorf("%v may %v: %v, and the least role is %v", role, v, may, own)
			}
			if may := May(a, v, Of(Held, 1001, "eve")) == nil; may != (role >= others) {
				t.Errorf("%v may %v something of others: %v, and the least role is %v", role, v, may, others)
			}
		}
	}
	if own, others := Verb(0).Least(); own <= Admin || others <= Admin {
		t.Errorf("%v and %v may do what has no rule", own, others)
	}
}

// A user of the machine who calls over TCP is told of tokens and of the socket, and not of
// roles, which would not help: root is an operator there.
func TestRefusalOverTCPNamesTokenAndSocket(t *testing.T) {
	root := Actor{User: "root", UID: 0, Door: TCP, Role: User}
	if said := May(root, Drain, Object{}).Error(); !strings.Contains(said, "berth token create NAME --role operator") || !strings.Contains(said, "Unix socket") || strings.Contains(said, "berth.yaml") {
		t.Error(said)
	}
	root.Token = "ci"
	if said := May(root, Drain, Object{}).Error(); !strings.Contains(said, "berth whoami") {
		t.Error(said)
	}
}
