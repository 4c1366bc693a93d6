package interop

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"

	"google.golang.org/grpc/codes"
)

// announced checks the names of the announced parameters, in order.
func announced(t *testing.T, s subject, d plugin.Definition, app client.App, want ...string) {
	t.Helper()
	got, err := s.parameters(t, d, app)
	if err != nil {
		t.Fatalf("expected the parameters %q, got the error %v", want, err)
	}
	var names []string
	for _, parameter := range got {
		names = append(names, parameter.GetName())
	}
	if !slices.Equal(names, want) {
		t.Fatalf("expected the parameters %q, got %q", want, names)
	}
}

// announcing is a plugin with the given text below `parameters:`.
func announcing(name, parameters string) plugin.Definition {
	return plugin.Definition{Name: name, Spec: "generate: {command: [cat, app.yaml]}\nparameters: " + parameters + "\n"}
}

func TestDynamicParametersComeBeforeStaticOnes(t *testing.T) {
	const static = `static: [{name: static-a}, {name: static-b}]`
	cases := []struct {
		definition plugin.Definition
		want       []string
	}{
		{announcing("both", `{`+static+`, dynamic: {command: [sh, -c], args: ['echo "[{\"name\":\"dynamic-a\"},{\"name\":\"dynamic-b\"}]"']}}`), []string{"dynamic-a", "dynamic-b", "static-a", "static-b"}},
		{announcing("empty-list", `{`+static+`, dynamic: {command: [echo, "[]"]}}`), []string{"static-a", "static-b"}},
		{announcing("null-list", `{`+static+`, dynamic: {command: [echo, "null"]}}`), []string{"static-a", "static-b"}},
		{announcing("same-name", `{`+static+`, dynamic: {command: [echo, '[{"name":"static-a"}]']}}`), []string{"static-a", "static-a", "static-b"}},
		{announcing("static", `{`+static+`}`), []string{"static-a", "static-b"}},
		{announcing("capitals", `{Static: [{Name: a}], DYNAMIC: {Command: [echo, '[{"NAME":"b"}]']}}`), []string{"b", "a"}},
		{plugin.Definition{Name: "none", Spec: "generate: {command: [cat, app.yaml]}"}, nil},
	}
	definitions := make([]plugin.Definition, len(cases))
	for i, c := range cases {
		definitions[i] = c.definition
	}
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"app.yaml": "x"})
		for _, c := range cases {
			t.Run(c.definition.Name, func(t *testing.T) { announced(t, s, c.definition, repo, c.want...) })
		}
	}, definitions...)
}

func TestEveryFieldOfAParameterIsAnnounced(t *testing.T) {
	d := announcing("fields", `
  static:
  - {name: s, title: Static, tooltip: "a tip", required: true, itemType: number, collectionType: string, string: "1"}
  - {name: list, collectionType: array, array: [a, "", b]}
  - {name: map, collectionType: map, map: {k: v, "": e}}
  dynamic:
    command: [cat, dynamic.json]`)
	const dynamic = `[{"Name":"d","title":"T","TOOLTIP":"é","required":true,"itemType":"i","collectionType":"c","string":"s","array":["x"],"map":{"m":"1"},"unknown":[1]},
		{"name":"first","name":"last"}, {"name":"null","title":null,"required":null,"array":null,"map":null}, {"array":["",null],"map":{"":null}}, {}]`
	const want = `[{"name":"d","title":"T","tooltip":"é","required":true,"itemType":"i","collectionType":"c","string":"s","array":["x"],"map":{"m":"1"}},` +
		`{"name":"last"},{"name":"null"},{"array":["",""],"map":{"":""}},{},` +
		`{"name":"s","title":"Static","tooltip":"a tip","required":true,"itemType":"number","collectionType":"string","string":"1"},` +
		`{"name":"list","collectionType":"array","array":["a","","b"]},` +
		`{"name":"map","collectionType":"map","map":{"":"e","k":"v"}}]`
	onEach(t, func(t *testing.T, s subject) {
		parameters, err := s.parameters(t, d, repositoryOf(t, tree.Files{"dynamic.json": dynamic}))
		if err != nil {
			t.Fatalf("expected %s, got the error %v", want, err)
		}
		if got, err := json.Marshal(parameters); err != nil || string(got) != want {
			t.Fatalf("expected %s, got %s (%v)", want, got, err)
		}
	}, d)
}

func TestDynamicParametersThatCannotBeReadAreErrors(t *testing.T) {
	const unmarshaling = "get parameters announcement error: error unmarshaling dynamic parameter output into ParametersAnnouncementResponse: "
	cases := []struct{ name, output, want string }{
		{"cut", `[`, "unexpected end of JSON input"},
		{"nothing", ``, "unexpected end of JSON input"},
		{"yaml", `- name: a`, "invalid character ' ' in numeric literal"},
		{"word", `hello`, "invalid character 'h' looking for beginning of value"},
		{"two", `[] []`, "invalid character '[' after top-level value"},
		{"object", `{"name":"a"}`, "json: cannot unmarshal object into Go value of type []*apiclient.ParameterAnnouncement"},
		{"number", `[{"name":1}]`, "json: cannot unmarshal number into Go struct field ParameterAnnouncement.name of type string"},
		{"number in a list", `[{"array":["a",1]}]`, "json: cannot unmarshal number into Go struct field ParameterAnnouncement.array of type string"},
		{"list in a map", `[{"map":{"a":[]}}]`, "json: cannot unmarshal array into Go struct field ParameterAnnouncement.map of type string"},
		{"text for a boolean", `[{"required":"true"}]`, "json: cannot unmarshal string into Go struct field ParameterAnnouncement.required of type bool"},
		{"list of texts", `["a"]`, "json: cannot unmarshal string into Go value of type apiclient.ParameterAnnouncement"},
		{"line feed in a text", "[{\"name\":\"a\nb\"}]", `invalid character '\n' in string literal`},
		{"unknown escape", `[{"name":"\x"}]`, "invalid character 'x' in string escape code"},
		{"comma at the end", `[{"name":"a"},]`, "invalid character ']' looking for beginning of value"},
		{"other quotes", `[{'name':'a'}]`, `invalid character '\'' looking for beginning of object key string`},
		{"leading zero", `[{"a":01}]`, "invalid character '1' after object key:value pair"},
		{"comment", "// none\n[]", "invalid character '/' looking for beginning of value"},
		{"garbage behind", "[]\x00", `invalid character '\x00' after top-level value`},
		{"byte order mark", "\ufeff[]", "invalid character 'ï' looking for beginning of value"},
	}
	d := announcing("dynamic", `{dynamic: {command: [cat, output]}}`)
	onEach(t, func(t *testing.T, s subject) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				_, err := s.parameters(t, d, repositoryOf(t, tree.Files{"output": c.output}))
				refused(t, s, err, codes.Unknown, unmarshaling+c.want)
			})
		}
	}, d)
}

func TestADynamicCommandThatFailsIsAnError(t *testing.T) {
	const executing = "get parameters announcement error: error executing dynamic parameter output command: "
	absent := announcing("absent", `{dynamic: {command: ["exit 1"]}}`)
	needy := announcing("needy", `{static: [{name: test-param, string: test-value}], dynamic: {command: [sh, -c], args: ['test -n "$MUST_BE_SET" || { echo not set >&2; exit 1; }; echo "[{\"name\":\"dynamic-test-param\",\"string\":\"$MUST_BE_SET\"}]"']}}`)
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"x": "x"})
		_, err := s.parameters(t, absent, repo)
		refused(t, s, err, codes.Unknown, executing+`exec: "exit 1": executable file not found in $PATH`)

		_, err = s.parameters(t, needy, repo)
		refusedLike(t, s, err, codes.Unknown, fmt.Sprintf("%s`ANY` failed exit status 1: not set", executing))
		announced(t, s, needy, with(repo, "MUST_BE_SET=yep"), "dynamic-test-param", "test-param")
	}, absent, needy)
}
