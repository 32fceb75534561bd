package rights

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/cli/console"
)

// daemon stands in for one. It answers each route with a text, and keeps the
// last request.
type daemon struct {
	answers map[string]string // by method and path
	asked   string            // method, path, query and body
}

func (d *daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, known := d.answers[r.Method+" "+r.URL.Path]
	if !known { // the command asks whether the daemon is there
		_, _ = io.WriteString(w, "{}")
		return
	}
	body, _ := io.ReadAll(r.Body)
	d.asked = r.Method + " " + r.URL.RequestURI() + " " + string(body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answer)
}

// run runs a command line against d, and returns what it writes and its exit
// code.
func (d *daemon) run(t *testing.T, in string, args ...string) (out, errs string, code int) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: d}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	var stdout, stderr bytes.Buffer
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	con := &console.Console{Socket: socket, Env: console.Env{
		In: strings.NewReader(in), Out: &stdout, Err: &stderr, Getenv: func(string) string { return "" },
		Now: func() time.Time { return now }, Terminal: func() (int, bool) { return 0, false },
	}}
	root := &cobra.Command{Use: "berth", SilenceErrors: true, SilenceUsage: true, PersistentPreRun: func(cmd *cobra.Command, _ []string) { con.Begin(cmd) }}
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.PersistentFlags().BoolVar(&con.JSON, "json", false, "")
	for _, each := range Commands(nil) {
		root.AddCommand(each.New(con))
	}
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(t.Context())
	err = console.Mistake(cmd, err)
	con.Report(err)
	return stdout.String(), stderr.String(), con.ExitCode(t.Context(), err)
}

const made = `{"name":"ci","role":"user","service":"ci","expires":"2026-05-01T12:00:00Z","token":"berth_secret"}`

// The secret is the only thing on standard output, so that it can go into a file.
func TestTokenCreate(t *testing.T) {
	d := &daemon{answers: map[string]string{"POST /api/tokens": made}}
	out, errs, code := d.run(t, "", "token", "create", "ci", "--role", "user", "--service", "ci", "--expires", "90d")
	if out != "berth_secret\n" || code != 0 {
		t.Errorf("exit code %d, standard output %q", code, out)
	}
	if want := "berth: ci has the role user for the service ci, and expires on 2026-05-01 12:00\n"; errs != want {
		t.Errorf("standard error %q, want %q", errs, want)
	}
	if want := `POST /api/tokens {"name":"ci","role":"user","service":"ci","ttl_seconds":7776000}`; d.asked != want {
		t.Errorf("asked %s, want %s", d.asked, want)
	}
	out, _, _ = d.run(t, "", "token", "create", "ci", "--role", "user", "--json")
	answer := map[string]any{}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || answer["token"] != "berth_secret" || answer["name"] != "ci" {
		t.Errorf("%s, %v", out, err)
	}
}

// A token is bound to a user only if that is said.
func TestTokenAsAUser(t *testing.T) {
	d := &daemon{answers: map[string]string{"POST /api/tokens": `{"name":"nightly","role":"user","as":"ada","token":"berth_secret"}`}}
	out, errs, code := d.run(t, "", "token", "create", "nightly", "--role", "user", "--as", "ada")
	if want := "berth: nightly has the role user, runs jobs as ada, and does not expire\n"; out != "berth_secret\n" || code != 0 || errs != want {
		t.Errorf("exit code %d, standard output %q, standard error %q, want %q", code, out, errs, want)
	}
	if want := `POST /api/tokens {"name":"nightly","role":"user","as":"ada"}`; d.asked != want {
		t.Errorf("asked %s, want %s", d.asked, want)
	}
	d.asked = ""
	if _, errs, code := d.run(t, "", "token", "create", "nightly", "--role", "user", "--as", ""); code != 2 || !strings.Contains(errs, "--as is empty") || d.asked != "" {
		t.Errorf("exit code %d, standard error %q, asked %q", code, errs, d.asked)
	}
}

// A secret that comes from standard input is sent, and shown nowhere.
func TestTokenWithAnOwnSecret(t *testing.T) {
	d := &daemon{answers: map[string]string{"POST /api/tokens": strings.ReplaceAll(made, "berth_secret", "0123456789abcdef")}}
	for _, more := range [][]string{nil, {"--json"}} {
		out, errs, code := d.run(t, "0123456789abcdef\n", append([]string{"token", "create", "ci", "--role", "user", "--stdin"}, more...)...)
		if strings.Contains(out+errs, "0123456789abcdef") || code != 0 {
			t.Errorf("exit code %d, standard output %q, standard error %q", code, out, errs)
		}
		if !strings.HasSuffix(d.asked, `{"name":"ci","role":"user","token":"0123456789abcdef"}`) {
			t.Errorf("asked %s", d.asked)
		}
	}
	for name, secret := range map[string]string{
		"nothing": "", "an empty line": "\n", "two lines": "0123456789abcdef\n0123456789abcdef\n", "binary": "0123456789\x00\xff", "with a space": "0123456789 abcdef",
		"too much": strings.Repeat("x", longestSecret+1),
	} {
		d.asked = ""
		if out, errs, code := d.run(t, secret, "token", "create", "ci", "--role", "user", "--stdin"); code != 2 || d.asked != "" || out != "" || len(errs) > 300 {
			t.Errorf("%s: exit code %d, asked %q, standard error %q", name, code, d.asked, errs)
		}
	}
}

// A secret can come from a file, and the request says whether it replaces another.
func TestTokenFromAFile(t *testing.T) {
	d := &daemon{answers: map[string]string{"POST /api/tokens": made}}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := d.run(t, "", "token", "create", "ci", "--role", "operator", "--secret-file", file, "--replace", "--wait", "5s")
	if out != "" || strings.Contains(errs, "0123456789abcdef") || code != 0 {
		t.Errorf("exit code %d, standard output %q, standard error %q", code, out, errs)
	}
	if want := `{"name":"ci","role":"operator","token":"0123456789abcdef","replace":true}`; !strings.HasSuffix(d.asked, want) {
		t.Errorf("asked %s, want %s", d.asked, want)
	}
	d.asked = ""
	if _, errs, code := d.run(t, "", "token", "create", "ci", "--role", "user", "--secret-file", file+"x"); code != 1 || d.asked != "" || !strings.Contains(errs, "no such file") {
		t.Errorf("no file: exit code %d, asked %q, standard error %q", code, d.asked, errs)
	}
}

// With --wait the command looks for the daemon until the time is over.
func TestTokenWaitsForTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stderr bytes.Buffer
		con := &console.Console{Socket: filepath.Join(t.TempDir(), "s"), Env: console.Env{Err: &stderr, Getenv: func(string) string { return "" }, Now: time.Now}}
		o := &tokenCreateOptions{Console: con}
		missing := (*client.NoDaemonError)(nil)
		began := time.Now()
		if _, err := o.awaitDaemon(t.Context()); !errors.As(err, &missing) || time.Since(began) > 100*time.Millisecond {
			t.Errorf("without --wait: %v after %v", err, time.Since(began))
		}
		if err := o.wait.Set("30s"); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		if _, err := o.awaitDaemon(t.Context()); !errors.As(err, &missing) || time.Since(began).Round(time.Second) != 30*time.Second {
			t.Errorf("with --wait 30s: %v after %v", err, time.Since(began))
		}
	})
}

// Whatever is wrong with a command line is found out before anybody is asked.
func TestWrongUsage(t *testing.T) {
	for said, line := range map[string]string{
		`--role is missing: give scraper, viewer, user, operator or admin`: "token create ci",
		`did you mean operator?`:                                  "token create ci --role opperator",
		`the roles are scraper, viewer, user, operator and admin`: "token create ci --role stranger",
		`give --stdin or --secret-file, not both`:                 "token create ci --role user --stdin --secret-file f",
		`--expires must be above 0`:                               "token create ci --role user --expires 0",
		`"soon" is not a length of time`:                          "token create ci --role user --expires soon",
		`quota takes one user, not "ann" and "bob"`:               "quota ann bob",
		`berth token revoke takes 1 argument, and b is left over`: "token revoke a b",
		`--limit must be between 1 and 2000, not 0`:               "audit --limit 0",
		`give --since or --limit, not both`:                       "audit --limit 5 --since 1h",
		`--since takes a length of time such as 10m or 7d`:        "audit --since yesterday",
		`there is no flag --all`:                                  "token list --all",
		`--watch must be at least 100ms`:                          "quota --watch=1ms",
	} {
		d := &daemon{}
		if _, errs, code := d.run(t, "", strings.Fields(line)...); code != 2 || !strings.Contains(errs, said) {
			t.Errorf("%s: exit code %d, said %q", line, code, errs)
		}
	}
	for _, args := range [][]string{{"token", "create", "", "--role", "user"}, {"token", "revoke", ""}, {"quota", ""}} {
		if _, errs, code := new(daemon).run(t, "", args...); code != 2 || !strings.Contains(errs, "is empty") {
			t.Errorf("%q: exit code %d, said %q", args, code, errs)
		}
	}
}

func TestTokenNamesAreOffered(t *testing.T) {
	d := &daemon{answers: map[string]string{"GET /api/tokens": `{"tokens":[{"name":"grafana","role":"scraper"},{"name":"ci","role":"user"}]}`}}
	out, _, _ := d.run(t, "", "__complete", "token", "revoke", "")
	if want := "grafana\tscraper\nci\tuser\n:4\n"; out != want {
		t.Errorf("offered %q, want %q", out, want)
	}
}

// Without --since, the newest entries are shown; with it, all, page after page.
func TestAuditPages(t *testing.T) {
	d := &daemon{answers: map[string]string{"GET /api/audit": `{"entries":[{"seq":3,"time":"2026-01-31T11:00:00Z","who":{"user":"ann","door":"socket"},"what":"release","outcome":"done"}]}`}}
	out, errs, code := d.run(t, "", "audit", "--user", "ann", "--limit", "5")
	if want := "2026-01-31 11:00:00   ann: release\n"; out != want || code != 0 || d.asked != "GET /api/audit?limit=5&user=ann " {
		t.Errorf("exit code %d, asked %q, said %q and %q, want %q", code, d.asked, out, errs, want)
	}
	if _, _, code := d.run(t, "", "audit", "--since", "7d"); code != 0 || d.asked != "GET /api/audit?after=0&limit=2000&since=2026-01-24T12%3A00%3A00Z " {
		t.Errorf("exit code %d, asked %q", code, d.asked)
	}
	d.answers["GET /api/audit"] = `{"entries":[]}`
	if out, _, _ := d.run(t, "", "audit", "--what", "revoke"); out != "No entry matches.\n" {
		t.Errorf("said %q", out)
	}
	if out, _, _ := d.run(t, "", "audit", "--what", "revoke", "--json"); out != "" {
		t.Errorf("said %q", out)
	}
}

// Following goes on where it was when the daemon comes back, and shows each
// entry once.
func TestAuditIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		log := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			after, _ := strconv.ParseUint(r.FormValue("after"), 10, 64)
			switch {
			case asked == 2 || asked == 3:
				http.Error(w, "restarting", http.StatusBadGateway)
			case asked > 5:
				_, _ = io.WriteString(w, `{"entries":[]}`)
			default: // two pages, and one more entry with each later look
				next := ""
				if asked == 4 {
					next = fmt.Sprintf(`,"next":%d`, after+1)
				}
				_, _ = fmt.Fprintf(w, `{"entries":[{"seq":%d,"what":"release","outcome":"done"}]%s}`, after+1, next)
			}
		})
		c, err := client.New(client.Options{Transport: client.Through(log)})
		if err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		o := &auditOptions{follow: true, Console: &console.Console{JSON: true, Env: console.Env{Out: &out, Err: &errs}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := o.show(ctx, c, client.AuditQuery{}); err != nil {
			t.Error(err)
		}
		if n := strings.Count(out.String(), "\n"); n != 3 || !strings.Contains(out.String(), `"seq":3`) {
			t.Errorf("%d entries, want 3:\n%s", n, &out)
		}
		if n := strings.Count(errs.String(), "waiting for it to come back"); n != 1 {
			t.Errorf("said %d times, want once:\n%s", n, &errs)
		}
	})
}

func TestQuotaOfAnother(t *testing.T) {
	d := &daemon{answers: map[string]string{"GET /api/quota": `{"user":"token:ci","limits":[{"name":"slots","limit":2,"used":1,"source":"users.token:ci"}]}`}}
	out, errs, code := d.run(t, "", "quota", "token:ci")
	if want := "token:ci\n\nLIMIT ON  USED  OF  FROM\nslots        1   2  users.token:ci\n"; out != want || code != 0 || d.asked != "GET /api/quota?user=token%3Aci " {
		t.Errorf("exit code %d, asked %q, said %q and %q, want %q", code, d.asked, out, errs, want)
	}
}
