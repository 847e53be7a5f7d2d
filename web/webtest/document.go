// Package webtest reads pages in tests: what they say, and whether they keep to the rules that every page keeps.
package webtest

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// Document is a parsed page.
type Document struct {
	tb   testing.TB
	root *html.Node
}

// Parse reads a page and checks what holds for all pages:
//   - no inline script, style or event handler, as the content policy would refuse them;
//   - nothing from another server;
//   - one main landmark, one first-level heading, a title and a language;
//   - no id twice; labels, descriptions and headings that are referred to exist;
//   - every image has an alternative text, every control a name.
func Parse(tb testing.TB, page string) Document {
	tb.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		tb.Fatalf("parse the page: %v", err)
	}
	d := Document{tb, root}
	d.checkPolicy()
	d.checkLandmarks()
	d.checkNames()
	return d
}

// All lists the elements for which keep is true, in document order.
func (d Document) All(keep func(n *html.Node) bool) []*html.Node {
	var found []*html.Node
	for n := range d.root.Descendants() {
		if n.Type == html.ElementNode && keep(n) {
			found = append(found, n)
		}
	}
	return found
}

// Tags lists the elements with a tag name.
func (d Document) Tags(name string) []*html.Node {
	return d.All(func(n *html.Node) bool { return n.Data == name })
}

// Find is the only element with an attribute value, such as Find("id", "status").
func (d Document) Find(key, value string) *html.Node {
	d.tb.Helper()
	found := d.All(func(n *html.Node) bool { return Attr(n, key) == value })
	if len(found) != 1 {
		d.tb.Fatalf("%d elements with %s=%q instead of one", len(found), key, value)
	}
	return found[0]
}

// Text is what an element says, with single spaces.
func Text(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// Attr is an attribute's value, empty where there is none.
func Attr(n *html.Node, key string) string {
	value, _ := lookUp(n, key)
	return value
}

// Has reports whether an element has an attribute.
func Has(n *html.Node, key string) bool {
	_, ok := lookUp(n, key)
	return ok
}

func lookUp(n *html.Node, key string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}

func (d Document) checkPolicy() {
	d.tb.Helper()
	for _, n := range d.All(func(*html.Node) bool { return true }) {
		switch {
		case n.Data == "style":
			d.tb.Errorf("a <style> element is refused by the content policy")
		case n.Data == "script" && Attr(n, "src") == "" && Attr(n, "type") != "application/json":
			d.tb.Errorf("an inline script is refused by the content policy: %.80s", Text(n))
		}
		for _, a := range n.Attr {
			if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
				d.tb.Errorf("<%s %s=%q> is refused by the content policy", n.Data, a.Key, a.Val)
			}
			if slices.Contains([]string{"src", "href", "action"}, a.Key) && !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#") || strings.HasPrefix(a.Val, "//") {
				d.tb.Errorf("<%s %s=%q> leads away from this server", n.Data, a.Key, a.Val)
			}
		}
	}
}

func (d Document) checkLandmarks() {
	d.tb.Helper()
	for _, name := range []string{"main", "h1", "title"} {
		found := d.Tags(name)
		if len(found) != 1 || Text(found[0]) == "" {
			d.tb.Errorf("%d <%s> elements instead of one with words in it", len(found), name)
		}
	}
	if Attr(d.Tags("html")[0], "lang") == "" {
		d.tb.Error("the page does not say its language")
	}
}

func (d Document) checkNames() {
	d.tb.Helper()
	ids := map[string]bool{}
	for _, n := range d.All(func(n *html.Node) bool { return Attr(n, "id") != "" }) {
		if id := Attr(n, "id"); ids[id] {
			d.tb.Errorf("the id %q is there twice", id)
		} else {
			ids[id] = true
		}
	}
	labelled := map[string]bool{}
	for _, n := range d.All(func(*html.Node) bool { return true }) {
		for _, key := range []string{"for", "aria-labelledby", "aria-describedby"} {
			for _, id := range strings.Fields(Attr(n, key)) {
				if !ids[id] {
					d.tb.Errorf("<%s %s=%q> refers to an id that is not there", n.Data, key, id)
				}
			}
		}
		if n.Data == "label" {
			labelled[Attr(n, "for")] = true
		}
		if n.Data == "img" && !Has(n, "alt") {
			d.tb.Errorf("an image without an alternative text: %s", Attr(n, "src"))
		}
	}
	for _, n := range d.All(isControl) {
		if !labelled[Attr(n, "id")] && !within(n, "label") && Attr(n, "aria-label") == "" && Text(n) == "" {
			d.tb.Errorf("<%s name=%q> has no name for those who can't see it", n.Data, Attr(n, "name"))
		}
	}
}

func isControl(n *html.Node) bool {
	return slices.Contains([]string{"input", "select", "textarea", "button"}, n.Data) && Attr(n, "type") != "hidden"
}

func within(n *html.Node, tag string) bool {
	for p := range n.Ancestors() {
		if p.Data == tag {
			return true
		}
	}
	return false
}
