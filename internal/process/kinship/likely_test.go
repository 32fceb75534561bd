package kinship

import (
	"reflect"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/internal/access"
)

// here is a register of leases that no process holds, each with its place as
// its fence.
func here(leases ...Lease) Register {
	for i := range leases {
		leases[i].Fence = uint64(i + 1)
	}
	return Register{
		Holds: func(ID) bool { return false },
		Lease: func(c Origin) (Lease, bool) {
			i := slices.IndexFunc(leases, func(l Lease) bool { return l.ID == c.Lease })
			return leases[max(i, 0)], i >= 0
		},
		Here: ListLeases(leases),
	}
}

// ids returns the ids of the leases of a tie.
func (r Register) ids(t Tie) []string {
	var list []string
	for _, fence := range t.Leases {
		for _, l := range slices.Concat(r.Here.scoped, r.Here.likely) {
			if l.Fence == fence {
				list = append(list, l.ID)
			}
		}
	}
	return list
}

var user7 = access.KnownUID(7)

func TestLikelyOwner(t *testing.T) {
	embed := Lease{ID: "embed", UID: 7, Service: "embed"}
	unit := Lease{ID: "a", UID: 7, Unit: "embed.service"}
	const inUnit = "/system.slice/embed.service"
	match := func(m Match) Lease { return Lease{ID: "a", UID: 7, Service: "s", Match: &m} }
	for name, test := range map[string]struct {
		leases  []Lease
		process Facts
		by      Evidence
		want    []string // the leases that fit
		none    bool     // the process belongs to none of them
	}{
		"nothing is known":                   {[]Lease{embed, unit}, Facts{}, "", nil, true},
		"a unit":                             {[]Lease{embed, unit}, Facts{UID: user7, Cgroups: []string{inUnit}}, Unit, []string{"a"}, false},
		"a unit, of another user":            {[]Lease{unit}, Facts{UID: access.KnownUID(8), Cgroups: []string{inUnit}}, "", nil, true},
		"a unit, and the user is not known":  {[]Lease{{ID: "a", UID: access.NoUID, Unit: "embed.service"}}, Facts{Cgroups: []string{inUnit}}, "", nil, true},
		"a unit before a program":            {[]Lease{embed, unit}, Facts{UID: user7, Cgroups: []string{inUnit}, Programs: []string{"embed"}}, Unit, []string{"a"}, false},
		"two units fit":                      {[]Lease{unit, {ID: "b", UID: 7, Unit: "embed"}}, Facts{UID: user7, Cgroups: []string{inUnit}}, Unit, []string{"a", "b"}, true},
		"two units fit, a program only one":  {[]Lease{unit, {ID: "b", UID: 7, Unit: "embed"}}, Facts{UID: user7, Cgroups: []string{inUnit}, Programs: []string{"b"}}, Unit, []string{"a", "b"}, true},
		"a unit of a bound lease":            {[]Lease{{ID: "a", UID: 7, Unit: "embed", Bound: true}}, Facts{UID: user7, Cgroups: []string{inUnit}}, Unit, []string{"a"}, false},
		"a service by unit":                  {[]Lease{match(Match{Unit: "embed"})}, Facts{UID: user7, Cgroups: []string{inUnit}}, Service, []string{"a"}, false},
		"a service by cgroup":                {[]Lease{match(Match{Cgroup: "system.slice/embed.service/"})}, Facts{UID: user7, Cgroups: []string{inUnit + "/worker"}}, Service, []string{"a"}, false},
		"a service by the root cgroup":       {[]Lease{match(Match{Cgroup: "/"})}, Facts{UID: user7, Cgroups: []string{inUnit}}, "", nil, true},
		"a service by program":               {[]Lease{match(Match{Program: "python3"})}, Facts{UID: user7, Programs: []string{"python3"}}, Service, []string{"a"}, false},
		"a service, of another user":         {[]Lease{match(Match{Program: "x"})}, Facts{UID: access.KnownUID(8), Programs: []string{"x"}}, "", nil, true},
		"a service and its user":             {[]Lease{match(Match{Program: "x", User: "eve"})}, Facts{UID: access.KnownUID(8), User: "eve", Programs: []string{"x"}}, Service, []string{"a"}, false},
		"a service and the number of a user": {[]Lease{match(Match{Program: "x", User: "8"})}, Facts{UID: access.KnownUID(8), Programs: []string{"x"}}, Service, []string{"a"}, false},
		"a service and another user":         {[]Lease{match(Match{Program: "x", User: "eve"})}, Facts{UID: user7, User: "ada", Programs: []string{"x"}}, "", nil, true},
		"a service by user alone":            {[]Lease{match(Match{User: "ada"})}, Facts{UID: user7, User: "ada"}, "", nil, true},
		"a service, and one thing is wrong":  {[]Lease{match(Match{Program: "x", Unit: "other"})}, Facts{UID: user7, Programs: []string{"x"}, Cgroups: []string{inUnit}}, "", nil, true},
		"a program by service":               {[]Lease{embed}, Facts{UID: user7, Programs: []string{"bash", "embed"}}, Program, []string{"embed"}, false},
		"a program by id":                    {[]Lease{{ID: "llm-server", UID: 7}}, Facts{UID: user7, Programs: []string{"llm_server"}}, Program, []string{"llm-server"}, false},
		"a program by name":                  {[]Lease{{ID: "a", UID: 7, Name: "llm"}}, Facts{UID: user7, Programs: []string{"llm"}}, Program, []string{"a"}, false},
		"a program, of another user":         {[]Lease{embed}, Facts{UID: access.KnownUID(8), Programs: []string{"embed"}}, "", nil, true},
		"an interpreter":                     {[]Lease{{ID: "a", UID: 7, Name: "python3.12"}}, Facts{UID: user7, Programs: []string{"python3.12"}}, "", nil, true},
		"a program of a bound lease":         {[]Lease{{ID: "a", UID: 7, Service: "embed", Bound: true}}, Facts{UID: user7, Programs: []string{"embed"}}, "", nil, true},
		"two programs fit":                   {[]Lease{embed, {ID: "a", UID: 7, Name: "embed"}}, Facts{UID: user7, Programs: []string{"embed"}}, Program, []string{"embed", "a"}, true},
		"replicas of a service":              {[]Lease{embed, {ID: "embed-2", UID: 7, Service: "embed"}}, Facts{UID: user7, Programs: []string{"embed"}}, Program, []string{"embed", "embed-2"}, false},
		"a service of two users":             {[]Lease{match(Match{Program: "x", User: "ada"}), {ID: "b", UID: 8, Service: "s", Match: &Match{Program: "x", User: "ada"}}}, Facts{UID: user7, User: "ada", Programs: []string{"x"}}, Service, []string{"a", "b"}, false},
		"two services":                       {[]Lease{match(Match{Program: "x"}), {ID: "b", UID: 7, Service: "t", Match: &Match{Program: "x"}}}, Facts{UID: user7, Programs: []string{"x"}}, Service, []string{"a", "b"}, true},
		"a service and a program":            {[]Lease{embed, match(Match{Program: "embed"})}, Facts{UID: user7, Programs: []string{"embed"}}, Service, []string{"a"}, false},
		"a lease with a scope":               {[]Lease{{ID: "a", UID: 7, Unit: "embed", Scope: []string{"x"}}}, Facts{UID: user7, Cgroups: []string{inUnit}}, "", nil, true},
	} {
		register := here(test.leases...)
		got, found := register.Owner(Process{line(30), test.process})
		if got.By != test.by || !reflect.DeepEqual(register.ids(got), test.want) || found == test.none || found && got.By.Certain() {
			t.Errorf("%s: %+v, %v; want %s %v, %v", name, got, found, string(test.by), test.want, !test.none)
		}
		for _, l := range test.leases {
			if concerned := here(l).Concerns(Process{line(30), test.process}, l); concerned != (slices.Contains(test.want, l.ID) || name == "a service and a program" || name == "a unit before a program") {
				t.Errorf("%s: it concerns %s: %v", name, l.ID, concerned)
			}
		}
	}
}

func TestScopedOwner(t *testing.T) {
	const pod = "/kubepods.slice/kubepods-burstable-pod12ab_34cd.slice/cri-containerd-ffee.scope"
	a, b := Lease{ID: "a", UID: 7, Scope: []string{"pod12ab-34cd"}}, Lease{ID: "b", UID: 7, Scope: []string{"pod12ab-34cd", "other"}}
	plain := Lease{ID: "plain", UID: 7, Holder: id(20)}
	for name, test := range map[string]struct {
		process Process
		want    []string // nil: none by scope
	}{
		"in the scope":              {Process{line(30), Facts{Cgroups: []string{pod}}}, []string{"a", "b"}},
		"of another user":           {Process{line(30), Facts{UID: access.KnownUID(9), Cgroups: []string{pod}}}, []string{"a", "b"}},
		"an origin chooses":         {Process{line(30), Facts{Origin: Origin{"b", 2, 9}, Cgroups: []string{pod}}}, []string{"b"}},
		"an old origin":             {Process{line(30), Facts{Origin: Origin{"b", 1, 9}, Cgroups: []string{pod}}}, []string{"a", "b"}},
		"below another holder":      {Process{line(30, 20), Facts{Cgroups: []string{pod}}}, []string{"a", "b"}},
		"in one of several":         {Process{line(30), Facts{Cgroups: []string{"/x/other"}}}, []string{"b"}},
		"outside, with an origin":   {Process{line(30), Facts{Origin: Origin{"a", 1, 7}}}, nil},
		"outside, called like it":   {Process{line(30), Facts{UID: user7, Programs: []string{"a"}}}, nil},
		"in a pod that sounds like": {Process{line(30), Facts{Cgroups: []string{"/kubepods-xpod12ab-34cd.slice"}}}, nil},
	} {
		register := here(a, b, plain)
		got, found := register.Owner(test.process)
		if !reflect.DeepEqual(register.ids(got), test.want) || found != (test.want != nil) || found && (got.By != Scope || !got.By.Certain()) {
			t.Errorf("%s: %+v, %v; want %v", name, got, found, test.want)
		}
	}
}

func TestUnits(t *testing.T) {
	const id64 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, test := range []struct {
		path, unit string
		want       bool
	}{
		{"/system.slice/embed.service", "embed.service", true},
		{"/system.slice/embed.service", "embed", true},
		{"/system.slice/embed.service/sub", "embed", true},
		{"/user.slice/user-7.slice/user@7.service/app.slice/embed.service", "embed.service", true},
		{"/system.slice/run-u1.scope", "run-u1", true},
		{"/system.slice/embed.service", "emb", false},
		{"/system.slice/docker-" + id64 + ".scope", id64, true},
		{"/system.slice/docker-" + id64 + ".scope", id64[:12], true},
		{"/docker/" + id64, id64[:12], true},
		{"/docker/" + id64, id64[:11], false},
		{"/docker/" + id64, "", false},
		{"/system.slice/embed.service", "system.slice", false},
		{"/system.slice/embed.service", "system", false},
		{"/init.scope", "init", false},
		{"/user.slice/user-7.slice/session-3.scope", "session-3.scope", false},
		{"/user.slice/user-7.slice/user@7.service/app.slice", "user@7.service", false},
		{"/../other", "..", false},
	} {
		f := Facts{Cgroups: []string{test.path}}
		if got := f.InUnit(test.unit); got != test.want {
			t.Errorf("%s is in unit %q: %v", test.path, test.unit, got)
		}
	}
}

func TestParseCgroups(t *testing.T) {
	for text, want := range map[string][]string{
		"0::/system.slice/x.service\n":                                {"/system.slice/x.service"},
		"3:cpu,cpuacct:/docker/ab\n1:name=systemd:/docker/ab\n0::/\n": {"/docker/ab"},
		"2:memory:/a:b\n":  {"/a:b"},
		"":                 nil,
		"0::/\nnonsense\n": nil,
	} {
		if got := ParseCgroups(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q has %q, want %q", text, got, want)
		}
	}
}

func TestPrograms(t *testing.T) {
	for _, test := range []struct{ names, want []string }{
		{[]string{"embed", "/opt/embed", "./embed"}, []string{"embed"}},
		{[]string{"embedding-servi", "/opt/embedding-service (deleted)", ""}, []string{"embedding-servi", "embedding-service"}},
		{[]string{"python3", "/usr/bin/python3.12", "python3", "embed.py", "embed"}, []string{"python3", "python3.12", "embed.py", "embed"}},
		{[]string{"", "/"}, nil},
	} {
		if got := Programs(test.names...); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%q are %q, want %q", test.names, got, test.want)
		}
	}
}

// A pod is found by the control groups of both drivers of kubelet, under any root.
func TestPodOf(t *testing.T) {
	const uid = "0f3c9a52-7b6e-4c1d-9e0f-2a4b6c8d0e1f"
	for path, want := range map[string]string{
		"/kubepods/burstable/pod" + uid + "/4711": uid,
		"/kubepods/pod" + uid + "/4711":           uid,
		"/node-1/kubepods/besteffort/pod" + uid:   uid,
		"/kubepods.slice/kubepods-pod0f3c9a52_7b6e_4c1d_9e0f_2a4b6c8d0e1f.slice/cri-containerd-1.scope": uid,
		"/kubepods.slice/kubepods-besteffort-podF0F3C9A52.slice":                                        "",
		"/kubepods/tripod" + uid:                            "",
		"/kubepods/pod" + uid[:35] + "/x":                   "",
		"/kubepods/pod0f3c9a52x7b6e-4c1d-9e0f-2a4b6c8d0e1f": "",
		"/system.slice/docker-0f3c.scope":                   "",
		"/":                                                 "",
	} {
		if got := PodOf([]string{"/user.slice", path}); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
