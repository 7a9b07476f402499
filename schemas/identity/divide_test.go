package identity_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muster/schemas/identity"
)

func TestDivideName_DividesOnlyWhereTheOrderIsKnown(t *testing.T) {
	for _, c := range []struct{ full, first, last string }{
		{"Carl Moss", "Carl", "Moss"},
		{"Plato", "Plato", ""},
		{"Ada Maria Quell", "Ada", "Quell"},
		{"Ada M. Quell", "Ada", "Quell"},
		{"A. Quell", "A.", "Quell"},
		{"Ada Q.", "Ada", ""},
		{"A. B.", "", ""},
		{"Dr. Ada Quell, PhD", "Ada", "Quell"},
		{"Prof. Dr. Ada Quell", "Ada", "Quell"},
		{"Ada Quell Jr.", "Ada", "Quell"},
		{"Ada Quell, MBA, PMP", "Ada", "Quell"},
		{"Quell, Ada", "Ada", "Quell"},
		{"Ada Quell, Designer", "", ""},
		{"Ludwig van Beethoven", "Ludwig", "van Beethoven"},
		{"Anna van der Berg", "Anna", "van der Berg"},
		{"Leonardo da Vinci", "Leonardo", "da Vinci"},
		{"Maria de la Cruz", "Maria", "de la Cruz"},
		{"João dos Santos Silva", "João", ""},
		{"José Ortega y Gasset", "José", "Ortega y Gasset"},
		{"Juan Carlos García Márquez", "Juan", ""},
		{"George R. R. Martin", "George", "Martin"},
		{"Jean-Luc Picard", "Jean-Luc", "Picard"},
		{"Conan O'Brien", "Conan", "O'Brien"},
		{"Ngũgĩ wa Thiong'o", "Ngũgĩ", "Thiong'o"},
		{"  Ada   Quell  ", "Ada", "Quell"},
		{"Ada Quell 🚀", "Ada", "Quell"},
		{"Ada (Addie) Quell", "Ada", "Quell"},
		{`Ada "Addie" Quell`, "Ada", "Quell"},
		{"Ada Quell (she/her)", "Ada", "Quell"},
		{"ada quell", "ada", "quell"},
		{"ADA QUELL", "ADA", "QUELL"},
		{"Иван Петров", "Иван", "Петров"},
		{"山田 太郎", "太郎", "山田"},
		{"김 민수", "민수", "김"},
		{"山田太郎", "", ""},
		{"김민수", "", ""},
		{"マイケル・ジャクソン", "マイケル", "ジャクソン"},
		{"Nguyễn Văn An", "", ""},
		{"octocat", "", ""},
		{"JavaScriptNinja", "", ""},
		{"ACME", "", ""},
		{"x_dark_x", "", ""},
		{"Ada Quell 2", "", ""},
		{"Tide Desk GmbH", "", ""},
		{"The Fjord Team", "", ""},
		{"ann@quell.example", "", ""},
		{"", "", ""},
	} {
		first, last := identity.DivideName(c.full)
		require.Equal(t, [2]string{c.first, c.last}, [2]string{first, last}, c.full)
	}
}
