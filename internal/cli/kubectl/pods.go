package kubectl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// selector selects the pods of the driver, and port is where each serves its page
// unless its container names another.
const (
	selector = "app.kubernetes.io/name=berth-dra"
	port     = 9480
	portName = "http"
)

// mostPods limits the list of pods in bytes: a pod takes about 10 KiB.
const mostPods = 128 << 20

// Pod is the driver on one node.
type Pod struct {
	Node string
	Name string
	Port int
	Away string // why it cannot be asked, in one sentence without a full stop; empty if it can
}

// Pods returns the driver's pods: one for each node, sorted by the name of the node.
// While the driver is replaced there are two on a node, and Pods returns the one most
// likely to answer.
func (c *Cluster) Pods(ctx context.Context) ([]Pod, error) {
	said, err := c.run(ctx, mostPods, "get", "pods", "--namespace="+c.Namespace, "--selector="+selector, "--output=json")
	if problem := (*Error)(nil); errors.As(err, &problem) {
		problem.Text = "list the driver's pods in " + c.Namespace + ": " + problem.Text
	}
	if err != nil {
		return nil, err
	}
	var list podList
	if err := json.Unmarshal(said, &list); err != nil {
		return nil, &Error{Text: "list the driver's pods: kubectl did not print JSON: " + err.Error(), Next: "look at what it prints: kubectl get pods --namespace " + c.Namespace + " --output json"}
	}
	pods := list.best()
	if len(pods) == 0 {
		return nil, &Error{Text: "no pod of berth's driver in the namespace " + c.Namespace, Next: "install the driver as berth help kubernetes says, or say where it is: --namespace NAME"}
	}
	return pods, nil
}

// podList has the fields that are needed of a list of pods.
type podList struct {
	Items []pod `json:"items"`
}

type pod struct {
	Metadata struct {
		Name    string     `json:"name"`
		Created time.Time  `json:"creationTimestamp"`
		Deleted *time.Time `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		NodeName   string `json:"nodeName"`
		Containers []struct {
			Ports []struct {
				Name string `json:"name"`
				Port int    `json:"containerPort"`
			} `json:"ports"`
		} `json:"containers"`
		Affinity struct {
			Node struct {
				Required struct {
					Terms []struct {
						Fields []struct {
							Key    string   `json:"key"`
							Values []string `json:"values"`
						} `json:"matchFields"`
					} `json:"nodeSelectorTerms"`
				} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
			} `json:"nodeAffinity"`
		} `json:"affinity"`
	} `json:"spec"`
	Status struct {
		Phase      string `json:"phase"`
		Reason     string `json:"reason"`
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"conditions"`
		Containers []struct {
			State struct {
				Waiting *struct {
					Reason string `json:"reason"`
				} `json:"waiting"`
			} `json:"state"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

// best returns the pod of each node that is most likely to answer.
func (l podList) best() []Pod {
	all := slices.Clone(l.Items)
	slices.SortStableFunc(all, func(a, b pod) int {
		return cmp.Or(cmp.Compare(a.node(), b.node()), b.rank()-a.rank(), b.Metadata.Created.Compare(a.Metadata.Created))
	})
	all = slices.CompactFunc(all, func(a, b pod) bool { return a.node() == b.node() })
	list := make([]Pod, 0, len(all))
	for _, p := range all {
		list = append(list, Pod{Node: p.node(), Name: p.Metadata.Name, Port: p.port(), Away: p.away()})
	}
	return list
}

// node returns the node that a pod runs on or is meant for: the pod of a DaemonSet that
// has no place yet names its node only in its affinity.
func (p pod) node() string {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName
	}
	for _, term := range p.Spec.Affinity.Node.Required.Terms {
		for _, f := range term.Fields {
			if f.Key == "metadata.name" && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return "pod " + p.Metadata.Name
}

// rank is higher for a pod that is more likely to answer.
func (p pod) rank() int {
	rank := 0
	if p.Status.Phase == "Running" {
		rank += 4
	}
	if p.Metadata.Deleted == nil {
		rank += 2
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			rank++
		}
	}
	return rank
}

func (p pod) port() int {
	for _, c := range p.Spec.Containers {
		for _, each := range c.Ports {
			if each.Name == portName && each.Port > 0 && each.Port < 1<<16 {
				return each.Port
			}
		}
	}
	return port
}

// away says why a pod cannot be asked.
func (p pod) away() string {
	if !isName(p.Metadata.Name, 253, "-.") {
		return "its driver's pod has a name that Kubernetes does not give"
	}
	if p.Status.Phase == "Running" {
		return ""
	}
	why := p.Status.Reason
	for _, c := range p.Status.Containers {
		if c.State.Waiting != nil {
			why = cmp.Or(why, c.State.Waiting.Reason)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Status == "False" {
			why = cmp.Or(why, c.Message)
		}
	}
	text := fmt.Sprintf("its driver does not run: pod %s is %s", p.Metadata.Name, cmp.Or(p.Status.Phase, "unknown"))
	if why != "" {
		text += " (" + why + ")"
	}
	return text
}
