package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
)

// mutant is a file with one change: the bytes from begin to end are replaced.
type mutant struct {
	name       string // file, function, and the change; the same while other lines come and go
	file       string
	line       int
	begin, end int
	with       string
}

// source returns the changed file.
func (m mutant) source() ([]byte, error) {
	content, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	return []byte(string(content[:m.begin]) + m.with + string(content[m.end:])), nil
}

// swaps are the operators that take another's place.
var swaps = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.ADD: {token.SUB}, token.SUB: {token.ADD},
	token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.AND: {token.OR}, token.OR: {token.AND}, token.XOR: {token.AND},
	token.SHL: {token.SHR}, token.SHR: {token.SHL},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.MUL_ASSIGN: {token.QUO_ASSIGN}, token.QUO_ASSIGN: {token.MUL_ASSIGN},
	token.INC: {token.DEC}, token.DEC: {token.INC},
}

// mutator collects the mutants of a file.
type mutator struct {
	path    string
	content string
	file    *token.File
	where   string // the function or the declaration
	names   map[string]int
	found   []mutant
}

// mutantsOf returns the mutants of a file, in the order of its text.
func mutantsOf(path string) ([]mutant, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, path, content, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	m := &mutator{path: path, content: string(content), file: set.File(tree.Pos()), names: map[string]int{}}
	for _, decl := range tree.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			m.where = decl.Name.Name
		case *ast.GenDecl:
			if decl.Tok == token.IMPORT || decl.Tok == token.TYPE {
				continue
			}
			m.where = decl.Tok.String()
		}
		ast.Inspect(decl, m.visit)
	}
	return m.found, nil
}

func (m *mutator) visit(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.BinaryExpr:
		m.swap(n, n.OpPos, n.Op)
	case *ast.AssignStmt:
		m.swap(n, n.TokPos, n.Tok)
		if n.Tok != token.DEFINE {
			m.drop(n)
		}
	case *ast.IncDecStmt:
		m.swap(n, n.TokPos, n.Tok)
		m.drop(n)
	case *ast.ExprStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt, *ast.BranchStmt:
		m.drop(n)
	case *ast.IfStmt:
		m.negate(n.Cond)
	case *ast.ForStmt:
		m.negate(n.Cond)
	case *ast.UnaryExpr:
		if n.Op == token.SUB || n.Op == token.NOT {
			m.add(n, n.OpPos, n.OpPos+1, "")
		}
	case *ast.BasicLit:
		if n.Kind == token.INT {
			if value, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
				m.add(n, n.Pos(), n.End(), strconv.FormatInt(value+1, 10))
			}
		}
	case *ast.Ident:
		switch n.Name {
		case "true":
			m.add(n, n.Pos(), n.End(), "false")
		case "false":
			m.add(n, n.Pos(), n.End(), "true")
		}
	case *ast.StructType, *ast.InterfaceType, *ast.ArrayType, *ast.FuncType:
		return false
	}
	return true
}

func (m *mutator) swap(n ast.Node, at token.Pos, op token.Token) {
	for _, other := range swaps[op] {
		m.add(n, at, at+token.Pos(len(op.String())), other.String())
	}
}

// negate leaves out what is negated by another mutant.
func (m *mutator) negate(cond ast.Expr) {
	if cond == nil {
		return
	}
	switch c := cond.(type) {
	case *ast.UnaryExpr:
		return
	case *ast.BinaryExpr:
		if c.Op != token.LAND && c.Op != token.LOR {
			return
		}
	}
	m.add(cond, cond.Pos(), cond.End(), "!("+m.text(cond.Pos(), cond.End())+")")
}

func (m *mutator) drop(n ast.Node) { m.add(n, n.Pos(), n.End(), "") }

// add adds the mutant in which a part of the node is replaced.
func (m *mutator) add(n ast.Node, begin, end token.Pos, with string) {
	was := m.text(n.Pos(), n.End())
	change := "drop"
	if becomes := m.text(n.Pos(), begin) + with + m.text(end, n.End()); becomes != "" {
		change = "=> " + becomes
	}
	name := fmt.Sprintf("%s %s: %s %s", m.path, m.where, short(was), short(change))
	m.names[name]++
	if times := m.names[name]; times > 1 {
		name += fmt.Sprintf(" #%d", times)
	}
	m.found = append(m.found, mutant{
		name: name, file: m.path, line: m.file.Line(begin), begin: m.file.Offset(begin), end: m.file.Offset(end), with: with,
	})
}

func (m *mutator) text(begin, end token.Pos) string {
	return m.content[m.file.Offset(begin):m.file.Offset(end)]
}

// short makes one line of limited length of a text.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 90 {
		text = string(r[:60]) + " … " + string(r[len(r)-27:])
	}
	return text
}
