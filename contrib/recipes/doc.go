// Package recipes has the programs of docs/recipes.md that need other modules, and their tests. It is not released.
package recipes
