package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watching returns the scenario about Prometheus.
func watching() []Scenario {
	return []Scenario{
		{Number: 20, Does: "the components metrics and node-tokens, the schemas of the Prometheus operator, and Debian's Prometheus",
			Expects: "the API server takes every object; Prometheus reads each daemon by TLS with its token and evaluates all rules; a claim over its limit raises its alert; port-forward is answered with a token only; the token of a driver counts on its own node alone", Run: watched},
	}
}

// scrapeToken is the token that Prometheus shows to the daemons.
const scrapeToken = "e2e-prometheus-0123456789abcdef01234567"

// serverName is what the certificate of the daemons is for.
const serverName = "berth.berth-system.svc"

func watched(h *H) {
	authority := h.secrets()
	h.Step("apply the schemas of the Prometheus operator")
	crds := os.Getenv("LAB") + "/crds"
	_, err := h.Kubectl("apply", "--server-side", "-f", crds)
	h.Must(err)
	for _, kind := range []string{"podmonitors", "prometheusrules", "servicemonitors"} {
		_, err := h.Kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/"+kind+".monitoring.coreos.com")
		h.Must(err)
	}
	h.clusterKeys()
	h.Step("apply the overlay simulated with the components metrics, monitoring and node-tokens")
	h.quiet()
	overlay := h.overlay()
	defer func() {
		_, _ = h.Kubectl("-n", "berth-system", "delete", "daemonset/berth", "podmonitor/berth", "--wait=false")
		_, _ = h.Kubectl("apply", "-k", h.deploy+"/base")
	}()
	text, err := h.Kubectl("apply", "-k", overlay)
	h.Must(err)
	for _, made := range []string{"podmonitor.monitoring.coreos.com/berth", "prometheusrule.monitoring.coreos.com/berth", "prometheusrule.monitoring.coreos.com/berth-dra", "networkpolicy.networking.k8s.io/berth", "configmap/berth-dashboard", "configmap/berth-dashboard-pods"} {
		if !strings.Contains(text, made+" ") {
			h.Fail("%s was not applied:\n%s", made, text)
		}
	}
	h.refusesUnknownFields()
	for number := 1; number <= nodes; number++ {
		empty(h.Node(number).Path("/var/lib/berth"))
		empty(h.Node(number).Path(guests))
		h.Node(number).Label("true")
	}
	for number := 1; number <= nodes; number++ {
		h.Eventually("the daemon and the driver of "+h.Node(number).Name+" are ready", h.inPods(number))
		h.guestFolders(h.Node(number))
	}

	p := h.prometheus(authority)
	defer p.stop()
	h.Within(60*time.Second, "Prometheus reads both daemons and both drivers", p.up(map[string]int{"berth": nodes, "berth-dra": nodes}))
	h.Within(30*time.Second, "every rule is evaluated", p.rules)
	for number := 1; number <= nodes; number++ {
		node := h.Node(number).Name
		if n := p.count(fmt.Sprintf(`gpu_memory_total_mb{job="berth", instance=%q, node=%q}`, node, node)); n != 2 {
			h.Fail("Prometheus knows %d GPUs of %s", n, node)
		}
	}
	h.turnedAway(authority)
	h.forwarded(authority)
	h.ownNode(authority)

	small := h.Create(Pod{Name: "small", Memory: "8Gi", Guest: true, Node: "node-1"})
	h.Eventually("a pod runs", h.Running(small))
	h.Within(45*time.Second, "Prometheus knows its claim by node and pod", func() error {
		if n := p.count(fmt.Sprintf(`berth_dra_claim_memory_mb{node="node-1", namespace=%q, pod="small", kind="leased"} == 8192`, h.Space)); n != 1 {
			return fmt.Errorf("%d series", n)
		}
		return nil
	})
	h.Step("the pod uses 9 GiB")
	h.Use(small, 9<<10)
	h.Within(2*time.Minute, "BerthClaimOverLimit fires", p.alert("BerthClaimOverLimit", "firing"))
	large := h.Create(Pod{Name: "large", Memory: "130Gi", Use: 128 << 10, Node: "node-2"})
	h.Eventually("a second pod runs and uses 128 GiB", h.Running(large))
	h.Within(60*time.Second, "HighGPUMemoryUsage of node-2 is pending", p.alert("HighGPUMemoryUsage", "pending"))
	h.Use(small, 1<<10)
	h.Within(60*time.Second, "BerthClaimOverLimit is over", func() error {
		if p.alert("BerthClaimOverLimit", "firing")() == nil {
			return errors.New("it fires")
		}
		return nil
	})
	h.Delete(small)
	h.Delete(large)
	h.Eventually("both pods are gone", h.Gone(small, large))
	for number := 1; number <= nodes; number++ {
		h.Eventually("no lease is left on "+h.Node(number).Name, h.Leases(number, 0))
	}
}

// secrets makes the Secrets of the component metrics, and returns the authority.
func (h *H) secrets() []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	h.Must(err)
	now := time.Now()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "e2e"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	h.Must(err)
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	h.Must(err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "berth"}, NotBefore: root.NotBefore, NotAfter: root.NotAfter, DNSNames: []string{serverName, "localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, own.Public(), key)
	h.Must(err)
	ownDER, err := x509.MarshalPKCS8PrivateKey(own)
	h.Must(err)
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	authority := block("CERTIFICATE", rootDER)
	for _, s := range []*corev1.Secret{
		{ObjectMeta: metav1.ObjectMeta{Name: "berth-tls"}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": block("CERTIFICATE", leafDER), "tls.key": block("PRIVATE KEY", ownDER), "ca.crt": authority}},
		{ObjectMeta: metav1.ObjectMeta{Name: "berth-metrics"}, StringData: map[string]string{"token": scrapeToken}},
	} {
		if err := h.Cluster.CoreV1().Secrets("berth-system").Delete(h.ctx, s.Name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			h.Must(err)
		}
		_, err := h.Cluster.CoreV1().Secrets("berth-system").Create(h.ctx, s, metav1.CreateOptions{})
		h.Must(err)
	}
	return authority
}

// overlay writes an overlay as users do, and returns its folder. The simulator's folder
// is that of the other scenarios.
func (h *H) overlay() string {
	folder := h.run + "/overlay"
	h.Must(os.MkdirAll(folder, 0o755))
	deploy, err := filepath.Rel(folder, h.deploy)
	h.Must(err)
	h.Must(os.WriteFile(folder+"/kustomization.yaml", fmt.Appendf(nil, `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [%[1]s/overlays/simulated]
components: [%[1]s/components/metrics, %[1]s/components/monitoring, %[1]s/components/node-tokens]
patches:
- target: {kind: DaemonSet, name: berth}
  patch: |
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: berth}
    spec:
      template:
        spec:
          containers:
          - name: berth
            env: [{name: BERTH_SIM_GUESTS, value: %[2]s}]
            volumeMounts: [{name: e2e, mountPath: %[2]s}]
          volumes: [{name: e2e, hostPath: {path: %[2]s, type: DirectoryOrCreate}}]
`, deploy, guests), 0o644))
	return folder
}

// refusesUnknownFields asserts that the schemas are in force: an object with a field that
// they do not have is refused.
func (h *H) refusesUnknownFields() {
	for _, yaml := range []string{
		"apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nmetadata: {name: wrong}\nspec: {selector: {}, podMetricsEndpoints: [{port: metrics, schema: https}]}\n",
		"apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: wrong}\nspec: {groups: [{name: a, rules: [{alert: a, expression: b}]}]}\n",
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: wrong}\nspec: {podSelector: {}, ingres: []}\n",
	} {
		if text, err := h.command(yaml, os.Getenv("LAB")+"/bin/kubectl", "--kubeconfig", h.run+"/admin.kubeconfig", "-n", h.Space, "apply", "--dry-run=server", "-f", "-"); err == nil {
			h.Fail("the API server takes a field that no schema has: %s", text)
		}
	}
}

// inPods is true when the daemon and the driver of a node run in pods and the devices are
// published.
func (h *H) inPods(number int) Condition {
	n := h.Node(number)
	return func() error {
		list, err := h.Cluster.CoreV1().Pods("berth-system").List(h.ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=berth", FieldSelector: "spec.nodeName=" + n.Name})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			if len(p.Status.ContainerStatuses) == 0 || !p.Status.ContainerStatuses[0].Ready {
				return fmt.Errorf("the daemon %s is not ready%s: %s", p.Name, h.why(&p), h.lastLine(&p))
			}
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("%d daemons run on %s", len(list.Items), n.Name)
		}
		return h.Published(number)()
	}
}

// clusterKeys makes the ConfigMap of the component node-tokens.
func (h *H) clusterKeys() {
	keys, err := h.Kubectl("get", "--raw", "/openid/v1/jwks")
	h.Must(err)
	_, _ = h.Kubectl("-n", "berth-system", "delete", "configmap/berth-cluster-keys")
	_, err = h.Kubectl("-n", "berth-system", "create", "configmap", "berth-cluster-keys", "--from-literal=keys.json="+keys)
	h.Must(err)
}

// ownNode asserts that the token of a driver counts on its own node alone, and that other
// tokens of its account count nowhere.
func (h *H) ownNode(authority []byte) {
	driver, err := h.Node(1).Driver()
	h.Must(err)
	make := func(more ...string) string {
		text, err := h.Kubectl(append([]string{"-n", "berth-system", "create", "token", "berth-dra"}, more...)...)
		h.Must(err)
		return strings.TrimSpace(text)
	}
	bound := []string{"--bound-object-kind=Pod", "--bound-object-name=" + driver.Name}
	own := make(append(bound, "--audience=berth")...)
	list, err := h.Cluster.CoreV1().Pods("berth-system").List(h.ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=berth"})
	h.Must(err)
	for _, p := range list.Items {
		at, want := "https://"+p.Status.PodIP+":8000/api/leases", 403
		if p.Spec.NodeName == "node-1" {
			want = 200
		}
		for what, c := range map[string]struct {
			token string
			want  int
		}{
			"the token of the driver of node-1": {own, want}, "one for the API server": {make(bound...), 403}, "one that is bound to no pod": {make("--audience=berth"), 403}, "a forged one": {own[:len(own)-6] + "AAAAAA", 401},
		} {
			if status := h.asked(authority, at, c.token); status != c.want {
				h.Fail("%s on %s: %d, want %d", what, p.Spec.NodeName, status, c.want)
			}
		}
	}
	h.Step("the token of the driver of node-1 counts there, and not on node-2")
}

// turnedAway asserts who is turned away at the port of a daemon.
func (h *H) turnedAway(authority []byte) {
	list, err := h.Cluster.CoreV1().Pods("berth-system").List(h.ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=berth"})
	h.Must(err)
	at := "https://" + list.Items[0].Status.PodIP + ":8000"
	for _, c := range []struct {
		path, token string
		want        int
	}{
		{"/metrics", "", 401}, {"/metrics", "wrong-0123456789abcdef0123456789abcdef", 401}, {"/metrics", scrapeToken, 200},
		{"/api/gpu/status", "", 401}, {"/api/leases", scrapeToken, 403}, {"/healthz", "", 200},
	} {
		if status := h.asked(authority, at+c.path, c.token); status != c.want {
			h.Fail("%s with the token %q: %d, want %d", c.path, c.token, status, c.want)
		}
	}
	if response, err := http.Get("http://" + list.Items[0].Status.PodIP + ":8000/metrics"); err == nil {
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			h.Fail("it answers without TLS")
		}
	}
	h.Step("without TLS or the token nobody reads anything, and the token reads metrics alone")
}

// asked returns the status of the answer to a request.
func (h *H) asked(authority []byte, address, token string) int {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: serverName}, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(h.ctx, "GET", address, nil)
	h.Must(err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.Do(r)
	h.Must(err)
	_ = response.Body.Close()
	return response.StatusCode
}

// forwarded asserts what kubectl port-forward reaches: the forwarder is root of the node,
// and still needs a token.
func (h *H) forwarded(authority []byte) {
	cmd := exec.CommandContext(h.ctx, os.Getenv("LAB")+"/bin/kubectl", "--kubeconfig", h.run+"/admin.kubeconfig", "-n", "berth-system", "port-forward", "service/berth", ":8000")
	var out lockedBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	h.Must(cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	port := ""
	h.wait(time.Minute, "kubectl forwards a port", func() error {
		if found := regexp.MustCompile(`127\.0\.0\.1:(\d+) -> 8000`).FindStringSubmatch(out.String()); found != nil {
			port = found[1]
			return nil
		}
		return fmt.Errorf("it says %q", out.String())
	})
	at := "https://localhost:" + port
	for path, want := range map[string]int{"/healthz": 200, "/api/gpu/status": 401, "/metrics": 401} {
		if status := h.asked(authority, at+path, ""); status != want {
			h.Fail("port-forward: %s is answered with %d, want %d", path, status, want)
		}
	}
	if status := h.asked(authority, at+"/metrics", scrapeToken); status != http.StatusOK {
		h.Fail("port-forward: /metrics with the token is answered with %d", status)
	}
	h.Step("kubectl port-forward reaches port 8000, and needs a token there")
}

// lockedBuffer keeps what a command prints.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// prometheus is a server of Debian's package.
type prometheus struct {
	h    *H
	cmd  *exec.Cmd
	at   string
	logs *lockedBuffer
}

// prometheus starts a server that scrapes what the monitors in the cluster say, as the
// operator would have it, and evaluates the rules in the cluster.
func (h *H) prometheus(authority []byte) *prometheus {
	folder := h.run + "/prometheus"
	h.Must(os.RemoveAll(folder))
	h.Must(os.MkdirAll(folder, 0o755))
	h.Must(os.WriteFile(folder+"/ca.crt", authority, 0o644))
	h.Must(os.WriteFile(folder+"/token", []byte(scrapeToken), 0o600))
	var files []string
	for _, name := range []string{"berth", "berth-dra"} {
		text, err := h.Kubectl("-n", "berth-system", "get", "prometheusrule/"+name, "-o", "jsonpath={.spec}")
		h.Must(err)
		files = append(files, name+".rules.yml")
		h.Must(os.WriteFile(folder+"/"+files[len(files)-1], []byte(text), 0o644)) // JSON is YAML
	}
	config, err := json.MarshalIndent(map[string]any{
		"global": map[string]any{"scrape_interval": "5s", "evaluation_interval": "5s"}, "rule_files": files,
		"scrape_configs": []any{h.scrape("podmonitor/berth", "podMetricsEndpoints"), h.scrape("servicemonitor/berth-dra", "endpoints")},
	}, "", " ")
	h.Must(err)
	h.Must(os.WriteFile(folder+"/prometheus.yml", config, 0o644))
	p := &prometheus{h: h, at: "http://127.0.0.1:9490", logs: &lockedBuffer{}}
	p.cmd = exec.CommandContext(h.base, h.run+"/bin/prometheus", "--config.file="+folder+"/prometheus.yml", "--storage.tsdb.path="+folder+"/data", "--web.listen-address=127.0.0.1:9490")
	p.cmd.Stdout, p.cmd.Stderr = p.logs, p.logs
	h.Must(p.cmd.Start())
	h.Eventually("Prometheus is ready", func() error {
		response, err := http.Get(p.at + "/-/ready")
		if err != nil {
			return fmt.Errorf("%w: %s", err, last(p.logs.String(), 3))
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
	return p
}

func (p *prometheus) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// scrape returns the configuration of Prometheus for a monitor: what the operator makes of
// the fields that these monitors have.
func (h *H) scrape(monitor, list string) map[string]any {
	text, err := h.Kubectl("-n", "berth-system", "get", monitor, "-o", "json")
	h.Must(err)
	var m struct {
		Spec struct {
			JobLabel  string
			Selector  struct{ MatchLabels map[string]string }
			Endpoints []endpoint
			Pods      []endpoint `json:"podMetricsEndpoints"`
		}
	}
	h.Must(json.Unmarshal([]byte(text), &m))
	all := slices.Concat(m.Spec.Endpoints, m.Spec.Pods)
	if len(all) != 1 || m.Spec.JobLabel != "app.kubernetes.io/name" {
		h.Fail("%s has %d endpoints in %s, and takes the job from %s", monitor, len(all), list, m.Spec.JobLabel)
	}
	e := all[0]
	of, port, targets := "pod", "__meta_kubernetes_pod_container_port_name", h.podTargets
	if list == "endpoints" {
		of, port, targets = "service", "__meta_kubernetes_endpointslice_port_name", h.sliceTargets
	}
	keep := func(label, value string) map[string]any {
		return map[string]any{"action": "keep", "source_labels": []string{label}, "regex": regexp.QuoteMeta(value)}
	}
	relabel := []map[string]any{keep(port, e.Port)}
	job := ""
	for label, value := range m.Spec.Selector.MatchLabels {
		relabel = append(relabel, keep("__meta_kubernetes_"+of+"_label_"+metaName(label), value))
		if label == m.Spec.JobLabel {
			job = value
		}
	}
	for _, r := range e.Relabelings {
		relabel = append(relabel, map[string]any{"source_labels": r.SourceLabels, "target_label": r.TargetLabel})
	}
	config := map[string]any{
		"job_name": job, "honor_labels": e.HonorLabels, "relabel_configs": relabel, "static_configs": targets(),
	}
	if e.Scheme != "" {
		config["scheme"], config["metrics_path"] = e.Scheme, e.Path
		config["tls_config"] = map[string]any{"ca_file": "ca.crt", "server_name": e.TLSConfig.ServerName}
		config["authorization"] = map[string]any{"credentials_file": "token"}
		if e.Authorization.Credentials.Name != "berth-metrics" || e.TLSConfig.CA.Secret.Name != "berth-tls" {
			h.Fail("%s takes its secrets from %+v", monitor, e)
		}
	}
	return config
}

// A target is what Prometheus finds, with the labels that it gives it. Debian's cannot ask
// an API server, so the harness does.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

func newTarget(address string, port int32, labels, of map[string]string, kind string) target {
	for label, value := range of {
		labels["__meta_kubernetes_"+kind+"_label_"+metaName(label)] = value
	}
	return target{[]string{fmt.Sprintf("%s:%d", address, port)}, labels}
}

// metaName returns a label of Kubernetes as Prometheus writes it.
func metaName(label string) string { return regexp.MustCompile(`\W`).ReplaceAllString(label, "_") }

// podTargets returns every port of every pod of the system.
func (h *H) podTargets() (all []target) {
	list, err := h.Cluster.CoreV1().Pods("berth-system").List(h.ctx, metav1.ListOptions{})
	h.Must(err)
	for _, p := range list.Items {
		for _, c := range p.Spec.Containers {
			for _, port := range c.Ports {
				all = append(all, newTarget(p.Status.PodIP, port.ContainerPort, map[string]string{
					"__meta_kubernetes_pod_container_port_name": port.Name, "__meta_kubernetes_pod_node_name": p.Spec.NodeName}, p.Labels, "pod"))
			}
		}
	}
	return all
}

// sliceTargets returns every endpoint of every service of the system.
func (h *H) sliceTargets() (all []target) {
	list, err := h.Cluster.DiscoveryV1().EndpointSlices("berth-system").List(h.ctx, metav1.ListOptions{})
	h.Must(err)
	for _, s := range list.Items {
		service, err := h.Cluster.CoreV1().Services("berth-system").Get(h.ctx, s.Labels["kubernetes.io/service-name"], metav1.GetOptions{})
		h.Must(err)
		for _, e := range s.Endpoints {
			for _, port := range s.Ports {
				all = append(all, newTarget(e.Addresses[0], *port.Port, map[string]string{
					"__meta_kubernetes_endpointslice_port_name": *port.Name, "__meta_kubernetes_pod_node_name": *e.NodeName}, service.Labels, "service"))
			}
		}
	}
	return all
}

// endpoint has the fields of an endpoint of a monitor that scrape knows.
type endpoint struct {
	Port, Scheme, Path string
	HonorLabels        bool
	Authorization      struct{ Credentials struct{ Name, Key string } }
	TLSConfig          struct {
		ServerName string
		CA         struct{ Secret struct{ Name, Key string } }
	}
	Relabelings []struct {
		SourceLabels []string
		TargetLabel  string
	}
}

// get reads an answer of the API of Prometheus.
func (p *prometheus) get(path string, into any) error {
	response, err := http.Get(p.at + "/api/v1/" + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Status != "success" {
		return fmt.Errorf("%s: %s %s", path, response.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// up is true when so many targets of each job answer, each of another node.
func (p *prometheus) up(want map[string]int) Condition {
	return func() error {
		var found struct {
			ActiveTargets []struct {
				Labels            map[string]string
				Health, LastError string
			}
		}
		if err := p.get("targets?state=active", &found); err != nil {
			return err
		}
		got, seen := map[string]int{}, map[string]bool{}
		for _, t := range found.ActiveTargets {
			if t.Health != "up" {
				return fmt.Errorf("%v is %s: %s", t.Labels, t.Health, t.LastError)
			}
			if name := t.Labels["job"] + " " + t.Labels["node"]; !seen[name] {
				seen[name] = true
				got[t.Labels["job"]]++
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(found.ActiveTargets) != len(seen) {
			return fmt.Errorf("the targets are %v", got)
		}
		return nil
	}
}

// rules is true when Prometheus has evaluated every rule without an error.
func (p *prometheus) rules() error {
	var found struct {
		Groups []struct {
			Name  string
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := p.get("rules", &found); err != nil {
		return err
	}
	count := 0
	for _, g := range found.Groups {
		for _, r := range g.Rules {
			if count++; r.Health != "ok" {
				return fmt.Errorf("the rule %s of %s is %s: %s", r.Name, g.Name, r.Health, r.LastError)
			}
		}
	}
	if count < 20 {
		return fmt.Errorf("there are %d rules", count)
	}
	p.h.Note("%d rules", count)
	return nil
}

// count returns how many series a query finds.
func (p *prometheus) count(query string) int {
	var found struct{ Result []any }
	p.h.Must(p.get("query?query="+url.QueryEscape(query), &found))
	return len(found.Result)
}

// alert is true when an alert is in a state.
func (p *prometheus) alert(name, state string) Condition {
	return func() error {
		var found struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
		if err := p.get("alerts", &found); err != nil {
			return err
		}
		var seen []string
		for _, a := range found.Alerts {
			if a.Labels["alertname"] == name && a.State == state && a.Labels["node"] != "" {
				return nil
			}
			seen = append(seen, a.Labels["alertname"]+" is "+a.State)
		}
		return fmt.Errorf("%s is not %s; %s", name, state, strings.Join(seen, ", "))
	}
}
