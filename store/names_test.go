package store_test

import (
	"path"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// usable are names that people give to elections, in several scripts, and names at the edge of the rule.
var usable = []string{
	"a", "primary", "database/primary", "a/b/c/d/e/f", "1", "-", "~",
	"a_b", "a_", "a_/b", "a/b_/c_d", ".a", "a.", "...", "a/...", "a.b/c..d",
	" ", "a b", "two words / and a slash", "tab-free  double space",
	"Größe", "ελληνικά/αθήνα", "Привет мир", "עברית", "العربية", "हिन्दी", "ไทย", "日本語/東京", "中文", "한국어", "አማርኛ",
	"\u00e9", "e\u0301", // the same letter, composed and decomposed: two names
	"a%2Fb", "a%20b", "a+b", `a\b`, "a:b", "a?b=c&d", "a#b", `"a"`, "a'b", "$(a)", "*", "a,b", "user@host", "<a>", "[a]",
	"ballot0000000001", "leader_ack", "zookeeper", "quota",
	strings.Repeat("x", store.MaxElection), strings.Repeat("é", store.MaxElection/2),
}

func TestCheckElectionTakesNamesInAnyScript(t *testing.T) {
	for _, name := range usable {
		require.NoError(t, store.CheckElection(name), "%q", name)
	}
}

func TestCheckElectionRefuses(t *testing.T) {
	for name, reason := range map[string]string{
		"":                                       "empty",
		"/":                                      "begins or ends",
		"//":                                     "begins or ends",
		"/a":                                     "begins or ends",
		"a/":                                     "begins or ends",
		"a//b":                                   "begins or ends",
		".":                                      `"." is not a name`,
		"..":                                     `".." is not a name`,
		"../a":                                   `".." is not a name`,
		"a/./b":                                  `"." is not a name`,
		"a/..":                                   `".." is not a name`,
		"_":                                      `begins with "_"`,
		"_a":                                     `begins with "_"`,
		"a/_ballots":                             `begins with "_"`,
		"a/_/b":                                  `begins with "_"`,
		"__":                                     `"__" stands for "/"`,
		"a__b":                                   `"__" stands for "/"`,
		"a___b":                                  `"__" stands for "/"`,
		"a/b__":                                  `"__" stands for "/"`,
		"a\x00b":                                 "U+0000 is a control",
		"a\nb":                                   "U+000A is a control",
		"a\tb":                                   "U+0009 is a control",
		"\x1b[31m":                               "U+001B is a control",
		"a\x7f":                                  "U+007F is a control",
		"a\u0085":                                "U+0085 is a control",
		"a\x1f":                                  "U+001F is a control",
		"a\u009f":                                "U+009F is a control",
		"a\u00a0":                                "U+00A0 is not printable",
		"a\ue000b":                               "U+E000 is a private-use",
		"a\uf8ff":                                "U+F8FF is a private-use",
		"a\ufff0":                                "U+FFF0 is a special",
		"\ufffd":                                 "U+FFFD is a special",
		"\uffff":                                 "U+FFFF is a special",
		"a\U00010000":                            "U+10000 is outside",
		"launch \U0001F680":                      "U+1F680 is outside",
		"a\xff":                                  "not valid UTF-8",
		"\xed\xa0\x80":                           "not valid UTF-8", // a surrogate, as CESU-8 writes it
		"a\xc0\xafb":                             "not valid UTF-8", // an overlong "/"
		strings.Repeat("x", store.MaxElection+1): "201 bytes, more than 200",
		strings.Repeat("é", store.MaxElection):   "400 bytes, more than 200",
		strings.Repeat("a/", store.MaxElection/2): "begins or ends",
	} {
		err := store.CheckElection(name)
		require.ErrorIs(t, err, store.ErrInvalid, "%q", name)
		require.True(t, store.Permanent(err), "%q", name)
		require.ErrorContains(t, err, reason, "%q", name)
	}
}

func TestCheckElectionErrorNamesFieldAndValue(t *testing.T) {
	var field *store.FieldError
	require.ErrorAs(t, store.CheckElection("a//b"), &field)
	require.Equal(t, "election", field.Field)
	require.Equal(t, "a//b", field.Value)
	require.Contains(t, field.Error(), `invalid election "a//b": `)
}

func TestCheckElectionErrorIsShort(t *testing.T) {
	for _, unit := range []string{"x", "é", "世", "\x00", "\xff", "\n"} {
		var field *store.FieldError
		require.ErrorAs(t, store.CheckElection(strings.Repeat(unit, 1<<20)), &field)
		require.LessOrEqual(t, len(field.Value), 64+len("..."))
		require.True(t, strings.HasSuffix(field.Value, "..."), "%q", field.Value)
		require.Less(t, len(field.Error()), 500)
		require.NotContains(t, field.Error(), "\n")
		require.NotContains(t, field.Value, string(utf8.RuneError), "a character was cut in two")
	}
}

// zooKeeperTakes is PathUtils.validatePath of ZooKeeper 3.8 for the characters of one node's name. Java sees a
// character outside the basic plane as two surrogates.
func zooKeeperTakes(r rune) bool {
	for _, c := range utf16.Encode([]rune{r}) {
		if c <= 0x1f || c >= 0x7f && c <= 0x9f || c >= 0xd800 && c <= 0xf8ff || c >= 0xfff0 {
			return false
		}
	}
	return true
}

func TestCheckElectionTakesTheCharactersThatEveryStoreTakes(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) || r > 0x10100 && r < 0x10ff00 && r%101 != 0 { // some of the planes of which none can stand
			continue
		}
		if err := store.CheckElection("a" + string(r) + "b"); (err == nil) != (zooKeeperTakes(r) && unicode.IsPrint(r)) {
			require.Fail(t, "disagreement", "%U: ZooKeeper takes it: %v, it is printed: %v; %v", r, zooKeeperTakes(r), unicode.IsPrint(r), err)
		}
	}
}

// directory is how the ZooKeeper layout writes a name.
func directory(name string) string { return strings.ReplaceAll(name, "/", "__") }

// requireApart fails if two distinct usable names meet in any store's layout.
func requireApart(t *testing.T, a, b string) {
	t.Helper()
	if directory(a) == directory(b) {
		require.Fail(t, "two names in one ZooKeeper directory", "%q and %q: %q", a, b, directory(a))
	}
	if path.Clean("/"+a) == path.Clean("/"+b) {
		require.Fail(t, "a store that cleans paths would see one name", "%q and %q", a, b)
	}
	// etcd and Consul keep what belongs to an election below <name>/_.
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		if reserved := pair[0] + "/_"; strings.HasPrefix(pair[1], reserved) {
			require.Fail(t, "a name among another election's own keys", "%q in %q", pair[1], reserved)
		}
	}
}

// requireUsableAnywhere fails if a usable name can't be a path or a node as it is.
func requireUsableAnywhere(t *testing.T, name string) {
	t.Helper()
	require.True(t, utf8.ValidString(name), "%q", name)
	require.NotEmpty(t, name)
	require.LessOrEqual(t, len(name), store.MaxElection)
	require.Equal(t, "/"+name, path.Clean("/"+name), "cleaning the path makes another name of it")
	node := directory(name)
	require.NotContains(t, node, "/")
	require.NotContains(t, []string{"", ".", ".."}, node)
	require.False(t, strings.HasPrefix(node, "_"), "%q is among the nodes that stores keep for themselves", node)
	for _, r := range node {
		require.True(t, zooKeeperTakes(r), "%q: %U", name, r)
	}
}

// TestUsableNamesNeverMeet tries every name of up to eight of the characters that have a meaning in the layouts.
func TestUsableNamesNeverMeet(t *testing.T) {
	const alphabet, longest = "a_/.", 7
	directories := map[string]string{}
	var tried, taken int
	var grow func(name string)
	grow = func(name string) {
		tried++
		if store.CheckElection(name) == nil {
			taken++
			requireUsableAnywhere(t, name)
			if other, ok := directories[directory(name)]; ok {
				requireApart(t, name, other)
			}
			directories[directory(name)] = name
			for i := range len(name) { // no name lies below what another one keeps for itself
				if name[i] == '/' && store.CheckElection(name[:i]) == nil {
					requireApart(t, name, name[:i])
				}
			}
		}
		if len(name) < longest {
			for _, c := range alphabet {
				grow(name + string(c))
			}
		}
	}
	grow("")
	require.Len(t, directories, taken)
	require.Greater(t, taken, tried/50, "too few of the names are usable for the test to mean anything")
}

func FuzzCheckElection(f *testing.F) {
	for i, name := range usable {
		f.Add(name, usable[(i+1)%len(usable)])
	}
	f.Add("a_/b", "a/_b")
	f.Add("a__b", "a/b")
	f.Add("a", "a/_ballots")
	f.Add("a", "a/./_ballots")
	f.Add("a_", "a/")
	f.Add("\xff", "\xfe")
	f.Fuzz(func(t *testing.T, a, b string) {
		var taken int
		for _, name := range []string{a, b} {
			if err := store.CheckElection(name); err != nil {
				require.ErrorIs(t, err, store.ErrInvalid)
				require.Less(t, len(err.Error()), 500)
				continue
			}
			taken++
			requireUsableAnywhere(t, name)
		}
		if taken == 2 && a != b {
			requireApart(t, a, b)
		}
	})
}

func TestCheckValueTakesAnyBytes(t *testing.T) {
	for _, value := range []string{
		"", "dbhost2:4567", "a\nb", "\x00", "\xff\xfe", "日本語 \U0001F680", strings.Repeat("\x00", store.MaxValue),
	} {
		require.NoError(t, store.CheckValue(value))
	}
}

func TestCheckValueRefusesWhatIsTooLong(t *testing.T) {
	err := store.CheckValue(strings.Repeat("secret", store.MaxValue/6+1))
	require.ErrorIs(t, err, store.ErrInvalid)
	require.True(t, store.Permanent(err))
	require.EqualError(t, err, "invalid value: it has 131076 bytes, more than 131072")
	require.NotContains(t, err.Error(), "secret", "a value may be anything, it does not belong into a log")
}
