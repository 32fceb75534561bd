package console

import "testing"

// A browser on another machine gets to the page through ssh, by the port that the
// link names, unless that is root's.
func TestTunnel(t *testing.T) {
	for link, want := range map[string][2]string{
		"http://127.0.0.1:8000/#login=x":  {"ssh -N -L 8000:127.0.0.1:8000 ann@box", "http://127.0.0.1:8000/#login=x"},
		"http://[::1]:8000/#login=x":      {"ssh -N -L 8000:[::1]:8000 ann@box", "http://[::1]:8000/#login=x"},
		"https://gpu-box:8443/#login=x":   {"ssh -N -L 8443:gpu-box:8443 ann@box", "https://localhost:8443/#login=x"},
		"http://10.0.0.5:80/#login=x":     {"ssh -N -L 8080:10.0.0.5:80 ann@box", "http://localhost:8080/#login=x"},
		"https://localhost:8000/#login=x": {"ssh -N -L 8000:localhost:8000 ann@box", "https://localhost:8000/#login=x"},
		"nonsense":                        {"", "nonsense"},
	} {
		if command, there := Tunnel(link, "ann@box", "22"); [2]string{command, there} != want {
			t.Errorf("%s: %q, %q", link, command, there)
		}
	}
	if command, _ := Tunnel("http://127.0.0.1:8000/", "ann@box", "2222"); command != "ssh -N -L 8000:127.0.0.1:8000 -p 2222 ann@box" {
		t.Error(command)
	}
}
