package console

import (
	"net"
	"net/url"
	"strconv"
)

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
