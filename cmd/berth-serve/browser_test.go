package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
)

// browser stands in for one: it is given a page that leads to a link, and signs in
// with it as the page of berth does. It writes down what it was given, and what it
// got.
func browser() {
	log, err := os.Create(os.Getenv("BROWSER_LOG"))
	if err != nil {
		panic(err)
	}
	if err := browse(log, os.Args[1:]); err != nil {
		fmt.Fprintln(log, "failed:", err)
	}
}

func browse(log io.Writer, args []string) error {
	info, err := os.Stat(args[0])
	if err != nil {
		return err
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	for _, arg := range append(args, os.Environ()...) {
		if strings.Contains(arg, "login=") {
			fmt.Fprintln(log, "others can read the code:", arg)
		}
	}
	link, err := url.Parse(html.UnescapeString(regexp.MustCompile(`url=([^"]*)"`).FindStringSubmatch(string(text))[1]))
	if err != nil {
		return err
	}
	fmt.Fprintln(log, "mode", info.Mode())
	code := strings.TrimPrefix(link.Fragment, "login=")
	link.Fragment = ""
	jar, _ := cookiejar.New(nil)
	client := http.Client{Jar: jar}
	answer, err := client.Post(link.JoinPath("api/session").String(), "application/json", strings.NewReader(`{"code":"`+code+`"}`))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	me, err := client.Get(link.JoinPath("api/whoami").String())
	if err != nil {
		return err
	}
	defer me.Body.Close()
	var who struct {
		User, Role, Door string
		Session          struct{ ID string }
	}
	if err := json.NewDecoder(me.Body).Decode(&who); err != nil {
		return err
	}
	fmt.Fprintf(log, "signed in with %d as %s by %s, session %v\n", answer.StatusCode, who.Role, who.Door, who.Session.ID != "")
	return nil
}
