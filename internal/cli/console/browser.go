package console

import (
	"errors"
	"fmt"
	"html"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// HasBrowser reports whether there is a screen on which a browser could appear.
func (c *Console) HasBrowser() bool {
	return c.Getenv("BROWSER") != "" || c.Getenv("DISPLAY") != "" || c.Getenv("WAYLAND_DISPLAY") != ""
}

// Browse opens an address in a browser, and returns a function that removes the files
// it made. Call the function when the browser has loaded the address.
//
// Every user of a machine can read the arguments of every program. So the browser does
// not get the address, which may hold a secret, but the name of a file that only its
// owner can read and that leads to the address.
func (c *Console) Browse(address string) (done func(), err error) {
	file, remove, err := c.leadTo(address)
	if err != nil {
		return nil, err
	}
	command := strings.Fields(strings.Split(c.Getenv("BROWSER"), ":")[0]) // the first browser named there
	if len(command) == 0 {
		command = []string{"xdg-open"}
	}
	placed := false
	for i, part := range command {
		if strings.Contains(part, "%s") {
			command[i], placed = strings.ReplaceAll(part, "%s", file), true
		}
	}
	if !placed {
		command = append(command, file)
	}
	browser := exec.Command(command[0], command[1:]...)
	browser.Env = c.Environ
	browser.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the browser stays when the command ends
	if err := browser.Start(); err != nil {
		remove()
		return nil, fmt.Errorf("open a browser: %w", err)
	}
	go func() { _ = browser.Wait() }() // some browsers stay until the last window is closed
	return remove, nil
}

// leadTo writes a page that leads to an address and that only the user can read.
func (c *Console) leadTo(address string) (path string, remove func(), err error) {
	folder, made := c.Getenv("XDG_RUNTIME_DIR"), false
	if info, err := os.Stat(folder); folder == "" || err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		if folder, err = os.MkdirTemp("", "berth-open-"); err != nil { // nobody else can read it
			return "", nil, fmt.Errorf("write a page that leads to the link: %w", err)
		}
		made = true
	}
	remove = func() {
		if path != "" {
			_ = os.Remove(path) // a file that is left is worthless in a minute
		}
		if made {
			_ = os.Remove(folder)
		}
	}
	f, err := os.CreateTemp(folder, "berth-open-*.html") // mode 0600
	if err != nil {
		remove()
		return "", nil, fmt.Errorf("write a page that leads to the link: %w", err)
	}
	path = f.Name()
	to := html.EscapeString(address)
	_, err = fmt.Fprintf(f, `<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=%s">
<title>berth</title>
<p><a href="%s">Go to the page of berth</a></p>
`, to, to)
	if err = errors.Join(err, f.Close()); err != nil {
		remove()
		return "", nil, fmt.Errorf("write a page that leads to the link: %w", err)
	}
	sweep(folder, path)
	return path, remove, nil
}

// sweep removes the pages of earlier commands that were killed.
func sweep(folder, but string) {
	old, _ := filepath.Glob(filepath.Join(folder, "berth-open-*.html")) // the pattern is valid
	for _, path := range old {
		if info, err := os.Lstat(path); path != but && err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > time.Minute {
			_ = os.Remove(path)
		}
	}
}

// Tunnel returns how a browser on another machine reaches the page: the ssh command for
// a login on this machine, and the link to open then. The link works only for
// connections of its user, such as those through ssh.
func Tunnel(link, login, port string) (command, there string) {
	at, err := url.Parse(link)
	if err != nil || at.Port() == "" {
		return "", link
	}
	local := at.Port()
	if n, err := strconv.Atoi(local); err == nil && n < 1024 { // only root may listen there
		local = strconv.Itoa(n + 8000)
	}
	command = "ssh -N -L " + local + ":" + net.JoinHostPort(at.Hostname(), at.Port())
	if port != "" && port != "22" {
		command += " -p " + port
	}
	host := at.Hostname()
	if !net.ParseIP(host).IsLoopback() {
		host = "localhost"
	}
	at.Host = net.JoinHostPort(host, local)
	return command + " " + login, at.String()
}
