package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/config"
)

// merge reads sources the way the daemon does: what is wrong with one of them
// comes out of Merge.
func merge(yaml, saved string, environ []string, flags map[string]string) (*config.Settings, error) {
	file, _ := config.ParseYAML("berth.yaml", []byte(yaml))
	runTime, _ := config.ParseSaved("saved.yaml", []byte(saved))
	env, _ := config.ParseEnv(environ)
	flag, _ := config.Flags(flags)
	return config.Merge(flag, env, runTime, file)
}

// lines is what a person reads, a complaint per line.
func lines(err error) string {
	refused := new(config.Error)
	if !errors.As(err, &refused) {
		return fmt.Sprint(err)
	}
	var b strings.Builder
	for _, c := range refused.Complaints {
		fmt.Fprintln(&b, c)
	}
	return strings.TrimSpace(b.String())
}

func TestRefusedFile(t *testing.T) {
	for _, c := range []struct{ name, yaml, want string }{
		{"unknown key", "gpu:\n  temp_optimum: 60\n",
			`berth.yaml:2: gpu.temp_optimum: is not a setting: did you mean temp_optimal?`},
		{"unknown section", "gpuu:\n  temp_optimal: 60\n",
			`berth.yaml:1: gpuu: is not a setting: did you mean gpu?`},
		{"nothing like it", "gpu:\n  colour: red\n",
			`berth.yaml:2: gpu.colour: is not a setting: there is none like it; berth config lists all of them`},
		{"right key, wrong place", "temp_optimal: 60\ngpu:\n  devices:\n    GPU-1:\n      monitor_interval: 2\n",
			"berth.yaml:1: temp_optimal: is in the wrong place: it belongs under gpu\n" +
				"berth.yaml:5: gpu.devices.GPU-1.monitor_interval: is in the wrong place: it belongs under gpu"},
		{"a word of several keys", "groups:\n  lab: {jobs: 4}\n",
			`berth.yaml:2: groups.lab.jobs: is not a setting: did you mean running_jobs or waiting_jobs?`},
		{"duplicate", "gpu:\n  temp_optimal: 60\n  history_size: 5\n  temp_optimal: 61\n",
			`berth.yaml:4: gpu.temp_optimal: is set twice, the first time in line 2: remove one of them`},
		{"duplicate device", "gpu:\n  devices:\n    GPU-1: {}\n    GPU-1: {}\n",
			`berth.yaml:4: gpu.devices.GPU-1: is set twice, the first time in line 3: remove one of them`},

		{"text for a number", "gpu:\n  temp_optimal: hot\n",
			`berth.yaml:2: gpu.temp_optimal: must be a number, not "hot"`},
		{"quoted number", "gpu:\n  temp_optimal: \"65\"\n",
			`berth.yaml:2: gpu.temp_optimal: must be a number, not "65"`},
		{"list for a number", "gpu:\n  temp_optimal: [65]\n",
			`berth.yaml:2: gpu.temp_optimal: must be a number, not a list`},
		{"section for a duration", "gpu:\n  monitor_interval: {seconds: 1}\n",
			`berth.yaml:2: gpu.monitor_interval: must be a number of seconds such as 30, or text such as 500ms, not a section`},
		{"truth", "gpu:\n  history_size: true\n",
			`berth.yaml:2: gpu.history_size: must be a whole number, not true`},
		{"list for a section", "gpu: [1, 2]\n",
			`berth.yaml:1: gpu: must be a section (key: value), not a list`},
		{"list for everything", "- 1\n",
			`berth.yaml:1: must be a section (key: value), not a list`},
		{"text for everything", "hello\n",
			`berth.yaml:1: must be a section (key: value), not a single value`},
		{"text for devices", "gpu:\n  devices: all\n",
			`berth.yaml:2: gpu.devices: must be a section (key: value), not a single value`},
		{"fraction", "gpu:\n  history_size: 1.5\n",
			`berth.yaml:2: gpu.history_size: must be a whole number, not 1.5`},
		{"fraction of a MiB", "gpu:\n  memory_reserve_mb: 0.5\n",
			`berth.yaml:2: gpu.memory_reserve_mb: must be a whole number of MiB, not 0.5`},
		{"not a number", "gpu:\n  temp_optimal: .nan\n  temp_normal: .inf\n  monitor_interval: -.inf\n  history_size: 1e400\n",
			"berth.yaml:2: gpu.temp_optimal: must be a number, not .nan\n" +
				"berth.yaml:3: gpu.temp_normal: must be a number, not .inf\n" +
				"berth.yaml:4: gpu.monitor_interval: must be a number of seconds such as 30, or text such as 500ms, not -.inf\n" +
				"berth.yaml:5: gpu.history_size: must be a whole number, not \"1e400\""},
		{"duration without sense", "gpu:\n  monitor_interval: soon\n",
			`berth.yaml:2: gpu.monitor_interval: must be a number of seconds such as 30, or text such as 500ms, not "soon"`},
		{"memory without sense", "gpu:\n  memory_limit_mb: 4 Gigs\n",
			`berth.yaml:2: gpu.memory_limit_mb: must be a number of MiB such as 2048, or text such as 4GiB, not "4 Gigs"`},
		{"long text is cut", "gpu:\n  temp_optimal: " + strings.Repeat("x", 1000) + "\n",
			`berth.yaml:2: gpu.temp_optimal: must be a number, not "` + strings.Repeat("x", 40) + `…"`},

		{"out of range", "gpu:\n  monitor_interval: 0.05\n  history_size: 0\n  memory_reserve_mb: -1\n  memory_limit_mb: 0\n  max_pipelines: 0\n  critical_pause_seconds: -1s\n",
			"berth.yaml:2: gpu.monitor_interval: must be 0.1 to 3600 s, not 0.05\n" +
				"berth.yaml:3: gpu.history_size: must be 1 to 100000, not 0\n" +
				"berth.yaml:4: gpu.memory_reserve_mb: must be at least 0 MiB, not -1\n" +
				"berth.yaml:5: gpu.memory_limit_mb: must be at least 1 MiB, not 0\n" +
				"berth.yaml:6: gpu.max_pipelines: must be 1 to 10000, not 0\n" +
				"berth.yaml:7: gpu.critical_pause_seconds: must be 0 to 86400 s, not \"-1s\""},
		{"out of this world", "gpu:\n  temp_critical: 151\n  memory_critical: 101\n  memory_optimal: 0\n  memory_limit_mb: 9e15\n",
			"berth.yaml:2: gpu.temp_critical: must be above 0, at most 150 °C, not 151\n" +
				"berth.yaml:3: gpu.memory_critical: must be above 0, at most 100 %, not 101\n" +
				"berth.yaml:4: gpu.memory_optimal: must be above 0, at most 100 %, not 0\n" +
				"berth.yaml:5: gpu.memory_limit_mb: 9e15 is more memory than any machine has"},

		{"thresholds out of order", "gpu:\n  temp_optimal: 80\n  temp_normal: 75\n",
			`berth.yaml:3: gpu.temp_normal: 75 is not above temp_optimal, which is 80 (berth.yaml:2)`},
		{"equal thresholds", "gpu:\n  memory_normal: 95\n",
			`berth.yaml:2: gpu.memory_normal: 95 is not below memory_critical, which is 95 (default)`},
		{"the one that was set is to blame, not the default", "gpu:\n  temp_optimal: 76\n",
			`berth.yaml:2: gpu.temp_optimal: 76 is not below temp_normal, which is 75 (default)`},
		{"thresholds of a device", "gpu:\n  devices:\n    GPU-1:\n      temp_throttle: 95\n",
			`berth.yaml:4: gpu.devices.GPU-1.temp_throttle: 95 is not below gpu.temp_critical, which is 90 (default)`},
		{"thresholds within a device", "gpu:\n  devices:\n    GPU-1:\n      temp_throttle: 88\n      temp_critical: 87\n",
			`berth.yaml:5: gpu.devices.GPU-1.temp_critical: 87 is not above temp_throttle, which is 88 (berth.yaml:4)`},
		{"no complaint about the order of what is wrong by itself", "gpu:\n  temp_optimal: -5\n  temp_normal: 60\n",
			`berth.yaml:2: gpu.temp_optimal: must be above 0, at most 150 °C, not -5`},

		{"device by index", "gpu:\n  devices:\n    0: {temp_optimal: 60}\n",
			`berth.yaml:3: gpu.devices: "0" is an index, which may mean another device after the next boot: use the UUID that berth status shows`},
		{"device without a name", "gpu:\n  devices:\n    \"\": {temp_optimal: 60}\n",
			`berth.yaml:3: gpu.devices: "" is not the UUID of a device: berth status shows them`},

		{"daemon", "daemon:\n  listen: 8000\n  log_level: loud\n  state_dir: \"\"\n  socket: /" + strings.Repeat("s", 107) + "\n  devices: \"a\\nb\"\n",
			"berth.yaml:2: daemon.listen: must be an address such as 127.0.0.1:8000 or [::1]:8000, not \"8000\"\n" +
				"berth.yaml:3: daemon.log_level: must be one of debug, info, warn, error, not \"loud\"\n" +
				"berth.yaml:4: daemon.state_dir: must not be empty\n" +
				"berth.yaml:5: daemon.socket: is 108 bytes long, but the path of a Unix socket has at most 107\n" +
				"berth.yaml:6: daemon.devices: must not hold control characters"},
		{"port", "daemon:\n  listen: 127.0.0.1:65536\n", `berth.yaml:2: daemon.listen: must be an address such as 127.0.0.1:8000 or [::1]:8000, not "127.0.0.1:65536"`},
		{"IPv6 without brackets", "daemon:\n  listen: ::1:80\n", `berth.yaml:2: daemon.listen: must be an address such as 127.0.0.1:8000 or [::1]:8000, not "::1:80"`},
		{"open door", "daemon:\n  listen: 0.0.0.0:8000\n",
			`berth.yaml:2: daemon.listen: 0.0.0.0:8000 can be reached from other machines, and without TLS everybody on the way can read tokens: set daemon.tls_cert and daemon.tls_key, or listen on 127.0.0.1. With daemon.insecure: true it listens anyway`},
		{"open door without a host", "daemon:\n  listen: :8000\n",
			`berth.yaml:2: daemon.listen: :8000 can be reached from other machines, and without TLS everybody on the way can read tokens: set daemon.tls_cert and daemon.tls_key, or listen on 127.0.0.1. With daemon.insecure: true it listens anyway`},
		{"certificate without a key", "daemon:\n  tls_cert: /c.pem\n", `berth.yaml:2: daemon.tls_cert: needs its key: set daemon.tls_key`},
		{"key without a certificate", "daemon:\n  tls_key: /k.pem\n", `berth.yaml:2: daemon.tls_key: needs its certificate: set daemon.tls_cert`},
		{"authorities without a certificate", "daemon:\n  tls_client_ca: /a.pem\n", `berth.yaml:2: daemon.tls_client_ca: needs TLS: set daemon.tls_cert and daemon.tls_key`},
		{"relative path", "daemon:\n  tls_cert: c.pem\n  tls_key: /k.pem\n", `berth.yaml:2: daemon.tls_cert: "c.pem" is not a whole path: begin it with /`},
		{"two tokens", "daemon:\n  token: abc\n  token_file: /t\n", `berth.yaml:3: daemon.token_file: is set beside daemon.token: set one of them`},
		{"modes of the socket", "daemon:\n  socket_mode: 0777\n", `berth.yaml:2: daemon.socket_mode: "0777" is not a mode of a socket: use octal digits such as 0660; others may at most read and write`},
		{"mode that shuts the owner out", "daemon:\n  socket_mode: \"0066\"\n", `berth.yaml:2: daemon.socket_mode: "0066" is not a mode of a socket: use octal digits such as 0660; others may at most read and write`},
		{"roles and limits", "users:\n  alice:\n    role: boss\n    memory_mb: -1\n    leases: 1.5\n  jane.doe:\n    role: user\n  'token:': {}\n",
			"berth.yaml:3: users.alice.role: must be one of viewer, user, operator, admin, not \"boss\"\n" +
				"berth.yaml:4: users.alice.memory_mb: must be at least 0 MiB, not -1\n" +
				"berth.yaml:5: users.alice.leases: must be a whole number, not 1.5\n" +
				"berth.yaml:6: users: \"jane.doe\" cannot be a name here: use a name without dots, colons and spaces, or the number\n" +
				"berth.yaml:8: users: \"token:\" cannot be a name here: use a name without dots, colons and spaces, or the number"},
		{"a bad token is not shown", "daemon:\n  token: hush hush\n",
			`berth.yaml:2: daemon.token: must be printable ASCII without spaces`},

		{"optimization", "optimization:\n  memory_threshold: 85\n  interval: 0\n",
			"berth.yaml:2: optimization.memory_threshold: must be above 0, at most 1, not 85\n" +
				"berth.yaml:3: optimization.interval: must be 1 to 86400 s, not 0"},
		{"service limits", "services:\n  embedder:\n    min_memory_mb: 4GiB\n    max_memory_mb: 2048\n    quota: {slots: -1}\n",
			"berth.yaml:4: services.embedder.max_memory_mb: 2048 is not at least min_memory_mb, which is 4096 (berth.yaml:3)\n" +
				"berth.yaml:5: services.embedder.quota.slots: must be 1 to 1000000, not -1"},
		{"service names", "services:\n  -rf: {}\n  a b: {}\n  a.b: {}\n",
			"berth.yaml:2: services: \"-rf\" is not a name for a service: use up to 64 letters, digits, dashes and underscores, the first a letter or digit\n" +
				"berth.yaml:3: services: \"a b\" is not a name for a service: use up to 64 letters, digits, dashes and underscores, the first a letter or digit\n" +
				"berth.yaml:4: services: \"a.b\" is not a name for a service: use up to 64 letters, digits, dashes and underscores, the first a letter or digit"},
		{"service users", "services:\n  a: {users: alice}\n  b: {users: [alice, alice]}\n  c: {users: [\"al ice\"]}\n  d: {users: [[alice]]}\n  e: {preferred_device: cuda 0}\n",
			"berth.yaml:2: services.a.users: must be a list such as [first, second], not \"alice\"\n" +
				"berth.yaml:3: services.b.users: names \"alice\" twice\n" +
				"berth.yaml:4: services.c.users: \"al ice\" is not a user name: use a login name, a user id, token:NAME or cert:NAME\n" +
				"berth.yaml:5: services.d.users: must be a list such as [first, second]\n" +
				"berth.yaml:6: services.e.preferred_device: \"cuda 0\" is neither the index nor the UUID of a device: berth status shows them"},
		{"one service in two spellings", "services:\n  a_b: {priority: 1}\n  c: {}\n  a-b: {priority: 2}\n",
			`berth.yaml:4: services: a_b in line 2 and a-b are the same service: put them together under one of the names`},
		{"unknown services", "unknown_services: maybe\ngpu:\n  unknown_services: serve\n",
			"berth.yaml:1: unknown_services: must be one of serve, refuse, not \"maybe\"\n" +
				"berth.yaml:3: gpu.unknown_services: is in the wrong place: it belongs at the top, outside of every section"},
		{"processes of services", "services:\n  a: {match: {user: alice}}\n  b: {match: {unit: user.slice, user: alice}}\n  c: {match: {cgroup: /}}\n  d: {match: {program: /bin/x}}\n  e: {match: x}\n",
			"berth.yaml:2: services.a.match.user: fits every program of the user: give a unit, a cgroup or a program too\n" +
				"berth.yaml:3: services.b.match.unit: \"user.slice\" is not the name of a service, a scope or a container: use one such as embedder.service\n" +
				"berth.yaml:4: services.c.match.cgroup: \"/\" is not the path of a control group below the root: use one such as /system.slice/embedder.service\n" +
				"berth.yaml:5: services.d.match.program: \"/bin/x\" is a path: use the name of the program alone\n" +
				"berth.yaml:6: services.e.match: must be a section (key: value), not a single value"},
		{"service key", "services:\n  a:\n    min_memory: 1\n",
			`berth.yaml:3: services.a.min_memory: is not a setting: did you mean min_memory_mb?`},

		{"a hook that tells nobody", "hooks:\n  pager: {severity: info}\n",
			`berth.yaml:2: hooks.pager: tells nobody: give it a url or a command`},
		{"a hook that tells two", "hooks:\n  pager:\n    url: https://example.com\n    command: [mail]\n",
			`berth.yaml:2: hooks.pager: has a url and a command: make two hooks of it`},
		{"what hooks are made of", "hooks:\n  a: {url: ftp://hush/hush}\n  b: {url: /hush}\n  c: {command: mail}\n  d: {command: [\"\"]}\n  e: {command: [\"a\\0b\"]}\n  f: {command: [mail], secret: hush}\n",
			"berth.yaml:2: hooks.a.url: must be a web address such as https://example.com/events\n" +
				"berth.yaml:3: hooks.b.url: must be a web address such as https://example.com/events\n" +
				"berth.yaml:4: hooks.c.command: must be a list such as [first, second], not \"mail\"\n" +
				"berth.yaml:5: hooks.d.command: must begin with the name of a program\n" +
				"berth.yaml:6: hooks.e.command: must not hold the character 0\n" +
				"berth.yaml:7: hooks.f.secret: is for a url: what a command is told is not signed"},
		{"which events a hook is for", "hooks:\n  a:\n    command: [mail, mail]\n    codes: [device_lots]\n    severity: high\n    timeout_seconds: 0\n",
			"berth.yaml:4: hooks.a.codes: \"device_lots\" is not the code of an event: did you mean device_lost?\n" +
				"berth.yaml:5: hooks.a.severity: must be one of info, warning, critical, not \"high\"\n" +
				"berth.yaml:6: hooks.a.timeout_seconds: must be 0.1 to 600 s, not 0"},
		{"hook names", "hooks:\n  a.b: {}\n",
			`berth.yaml:2: hooks: "a.b" is not a name for a hook: use up to 64 letters, digits, dashes and underscores, the first a letter or digit`},

		{"alias", "gpu: &a\n  temp_optimal: &t 60\n  temp_normal: *t\n",
			"berth.yaml:1: gpu: has an anchor (&), which is not supported: remove it\n" +
				"berth.yaml:2: gpu.temp_optimal: has an anchor (&), which is not supported: remove it\n" +
				"berth.yaml:3: gpu.temp_normal: is an alias (*), which is not supported: write the value itself"},
		{"alias bomb", "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\ngpu: *c\n",
			"berth.yaml:1: a: is not a setting: there is none like it; berth config lists all of them\n" +
				"berth.yaml:2: b: is not a setting: there is none like it; berth config lists all of them\n" +
				"berth.yaml:3: c: is not a setting: there is none like it; berth config lists all of them\n" +
				"berth.yaml:4: gpu: is an alias (*), which is not supported: write the value itself"},
		{"alias as a key", "gpu:\n  ? &t temp_optimal\n  : 60\n  *t : 61\n",
			"berth.yaml:3: gpu.temp_optimal: has an anchor (&), which is not supported: remove it\n" +
				"berth.yaml:4: gpu: has a key that is not a plain word: write one word before the colon"},
		{"tag", "gpu:\n  temp_optimal: !!float \"60\"\n",
			`berth.yaml:2: gpu.temp_optimal: has a tag (!), which is not supported: write the plain value`},
		{"two documents", "gpu: {}\n---\ngpu: {}\n",
			`berth.yaml:2: a second document begins here: remove the line --- and put everything into one document`},
		{"broken", "gpu:\n  temp_optimal: 60\n temp_normal: 70\n",
			`berth.yaml:2: the file is not YAML: did not find expected key: look for a missing colon, quote or bracket here and in the lines around it, and for tabs: YAML is indented with blanks`},
		{"broken text", "gpu: \"\n",
			`berth.yaml:2: the file is not YAML: found unexpected end of stream: look for a missing colon, quote or bracket here and in the lines around it, and for tabs: YAML is indented with blanks`},
		{"tabs", "gpu:\n\ttemp_optimal: 60\n",
			`berth.yaml:2: the file is not YAML: found character that cannot start any token: look for a missing colon, quote or bracket here and in the lines around it, and for tabs: YAML is indented with blanks`},
		{"broken in the first line", "gpu: temp_optimal: 60\n",
			`berth.yaml:1: the file is not YAML: a value has a colon and a blank in it, or the line is indented too far: write such a value between quotes, as in title: 'one: two'`},
		{"control character", "gpu:\n  temp_optimal: 6\x000\n",
			`berth.yaml:2: the file has bytes that are not UTF-8, or control characters: write plain text`},
		{"binary", "gpu: \x80\x81\n",
			`berth.yaml:1: the file has bytes that are not UTF-8, or control characters: write plain text`},
		{"huge", strings.Repeat("# comment\n", 1<<17),
			`berth.yaml: the file is larger than 1 MiB, and is not read: split it, or leave out what is not needed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings, err := merge(c.yaml, "", nil, nil)
			if diff := cmp.Diff(c.want, lines(err)); diff != "" || settings != nil {
				t.Errorf("complaints (-want +got), settings %v:\n%s", settings, diff)
			}
		})
	}
}

func TestRefusedSources(t *testing.T) {
	for _, c := range []struct {
		name, yaml, saved string
		environ           []string
		flags             map[string]string
		want              string
	}{
		{name: "everything at once", yaml: "gpu:\n  temp_optimal: hot\n", saved: "gpu: {history_size: 0}",
			environ: []string{"BERTH_GPU_TEMP_NORMAL=x"}, flags: map[string]string{"daemon.listen": "x"},
			want: "berth.yaml:2: gpu.temp_optimal: must be a number, not \"hot\"\n" +
				"saved.yaml:1: gpu.history_size: must be 1 to 100000, not 0\n" +
				"environment BERTH_GPU_TEMP_NORMAL: gpu.temp_normal: must be a number, not \"x\"\n" +
				"flag --listen: daemon.listen: must be an address such as 127.0.0.1:8000 or [::1]:8000, not \"x\""},
		{name: "out of order after merging", yaml: "gpu:\n  temp_optimal: 74\n", environ: []string{"BERTH_GPU_TEMP_NORMAL=70"},
			want: `environment BERTH_GPU_TEMP_NORMAL: gpu.temp_normal: 70 is not above temp_optimal, which is 74 (berth.yaml:2)`},
		{name: "saved against a newer file", yaml: "gpu:\n  temp_normal: 70\n", saved: "gpu:\n  temp_optimal: 72\n",
			want: `saved.yaml:2: gpu.temp_optimal: 72 is not below temp_normal, which is 70 (berth.yaml:2)`},
		{name: "a device against a flag", yaml: "gpu: {devices: {GPU-1: {temp_normal: 70}}}", flags: map[string]string{"gpu.temp_optimal": "71"},
			want: `berth.yaml:1: gpu.devices.GPU-1.temp_normal: 70 is not above gpu.temp_optimal, which is 71 (flag --gpu-temp-optimal)`},
		{name: "saved is only about gpu", saved: "daemon: {listen: 127.0.0.1:1}",
			want: `saved.yaml:1: daemon: is not a setting: there is none like it; berth config lists all of them`},

		{name: "unknown variable of a section", environ: []string{"BERTH_GPU_TEMP_OPTIMUM=60", "BERTH_DAEMON_PROT=1"},
			want: "environment BERTH_DAEMON_PROT: is not a setting: did you mean BERTH_DAEMON_LISTEN?\n" +
				"environment BERTH_GPU_TEMP_OPTIMUM: is not a setting: did you mean BERTH_GPU_TEMP_OPTIMAL?"},
		{name: "misspelt short variable", environ: []string{"BERTH_LISTN=:1"},
			want: `environment BERTH_LISTN: is not a setting: did you mean BERTH_LISTEN?`},
		{name: "a device by variable", environ: []string{"BERTH_GPU_DEVICES={}"},
			want: `environment BERTH_GPU_DEVICES: is not a setting: did you mean BERTH_DEVICES?`},
		{name: "short and long differ", environ: []string{"BERTH_LISTEN=127.0.0.1:1", "BERTH_DAEMON_LISTEN=127.0.0.1:2"},
			want: `environment BERTH_LISTEN: daemon.listen: differs from what environment BERTH_DAEMON_LISTEN says: unset one of them`},
		{name: "numbers in the environment", environ: []string{"BERTH_GPU_TEMP_OPTIMAL=NaN", "BERTH_GPU_TEMP_NORMAL=Inf", "BERTH_GPU_MEMORY_LIMIT_MB=-4GiB"},
			want: "environment BERTH_GPU_MEMORY_LIMIT_MB: gpu.memory_limit_mb: must be a number of MiB such as 2048, or text such as 4GiB, not \"-4GiB\"\n" +
				"environment BERTH_GPU_TEMP_NORMAL: gpu.temp_normal: must be a number, not \"Inf\"\n" +
				"environment BERTH_GPU_TEMP_OPTIMAL: gpu.temp_optimal: must be a number, not \"NaN\""},
		{name: "bytes that are no text", environ: []string{"BERTH_STATE_DIR=/\xff"},
			want: `environment BERTH_STATE_DIR: daemon.state_dir: must be valid UTF-8`},
		{name: "a token in the environment is not shown", environ: []string{"BERTH_TOKEN=hush\thush"},
			want: `environment BERTH_TOKEN: daemon.token: must not hold control characters`},

		{name: "unknown flag", flags: map[string]string{"daemon.port": "1"},
			want: `flag: daemon.port: is not a setting: there is none like it; berth config lists all of them`},
		{name: "a secret is no flag", flags: map[string]string{"daemon.token": "hush"},
			want: `flag: daemon.token: is not a setting: did you mean daemon.token_file?`},
		{name: "open door by flag", flags: map[string]string{"daemon.listen": "[::]:8000"},
			want: `flag --listen: daemon.listen: [::]:8000 can be reached from other machines, and without TLS everybody on the way can read tokens: set daemon.tls_cert and daemon.tls_key, or listen on 127.0.0.1. With daemon.insecure: true it listens anyway`},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings, err := merge(c.yaml, c.saved, c.environ, c.flags)
			if diff := cmp.Diff(c.want, lines(err)); diff != "" || settings != nil {
				t.Errorf("complaints (-want +got), settings %v:\n%s", settings, diff)
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	_, one := config.ParseYAML("berth.yaml", []byte("gpu: {temp_optimal: hot}"))
	_, two := config.ParseYAML("berth.yaml", []byte("gpu: {temp_optimal: hot, temp_normal: hot}"))
	for err, want := range map[error]string{
		one: `configuration refused: berth.yaml:1: gpu.temp_optimal: must be a number, not "hot"`,
		two: "configuration refused, 2 settings are wrong:\n" +
			"  berth.yaml:1: gpu.temp_optimal: must be a number, not \"hot\"\n" +
			"  berth.yaml:1: gpu.temp_normal: must be a number, not \"hot\"",
	} {
		if err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
	}
}

func TestComplaintsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&b, "key_%d: 1\n", i)
	}
	_, err := merge(b.String(), b.String(), nil, nil)
	refused := new(config.Error)
	if !errors.As(err, &refused) || len(refused.Complaints) != 100 {
		t.Fatalf("got %d complaints, want 100", len(refused.Complaints))
	}
	if last := refused.Complaints[99].String(); last != "and more: these come first" {
		t.Errorf("the last complaint is %q", last)
	}
}

func TestPathsThatAreNotKnown(t *testing.T) {
	_, err := config.Merge(config.Paths("", "/"+strings.Repeat("s", 107)))
	want := "daemon.state_dir: has no default, because the environment names no home: set it\n" +
		"daemon.socket: the default /" + strings.Repeat("s", 107) + " is 108 bytes long, but the path of a Unix socket has at most 107: set a shorter one"
	if diff := cmp.Diff(want, lines(err)); diff != "" {
		t.Error(diff)
	}
	flags, _ := config.Flags(map[string]string{"daemon.state_dir": "/s", "daemon.socket": "/s/b"})
	if _, err := config.Merge(config.Paths("", ""), flags); err != nil {
		t.Errorf("with both set: %v", err)
	}
}
