package main

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// The tools, at versions that this was tried with.
const (
	govulncheck     = "golang.org/x/vuln/cmd/govulncheck@v1.8.0"
	staticcheckTool = "honnef.co/go/tools/cmd/staticcheck@v0.8.2"
)

// goRun runs a tool, which Go fetches and builds the first time.
func goRun(tool string, args ...string) (text string, exit int, err error) {
	cmd := exec.Command("go", append([]string{"run", tool}, args...)...)
	out, err := cmd.CombinedOutput()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		return string(out), ended.ExitCode(), nil
	}
	return string(out), 0, err
}

// vulnerabilities asks a database which known faults of the modules the code can
// reach; an empty one is Go's own.
func vulnerabilities(database string, packages ...string) (string, error) {
	args := packages
	if database != "" {
		args = append([]string{"-db", database}, packages...)
	}
	text, exit, err := goRun(govulncheck, args...)
	if err != nil {
		return "", err
	}
	return judge(text, exit)
}

// judge says what govulncheck found. go run ends with 1 whatever the tool ends
// with, and prints that.
func judge(text string, exit int) (string, error) {
	switch {
	case exit == 0:
		return "govulncheck found none", nil
	case strings.Contains(text, "exit status 3"):
		return "", fmt.Errorf("govulncheck found some:\n%s", text)
	case strings.Contains(text, "fetching vulnerabilities"), strings.Contains(text, "unrecognized vulndb format"):
		return "", fmt.Errorf("%w: the database of vulnerabilities cannot be reached: %s", errUnchecked, lastLine(text))
	}
	return "", fmt.Errorf("govulncheck: %s", text)
}

// staticcheck looks for mistakes that the compiler takes.
func staticcheck() (string, error) {
	text, exit, err := goRun(staticcheckTool, "./...")
	switch {
	case err != nil:
		return "", err
	case exit != 0:
		return "", fmt.Errorf("it found mistakes:\n%s", text)
	}
	return "it found nothing", nil
}

// lastLine returns the last line of a text that says something.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := len(lines) - 1; i > 0; i-- {
		if !strings.HasPrefix(lines[i], "exit status") {
			return lines[i]
		}
	}
	return lines[0]
}
