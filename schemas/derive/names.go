package derive

import (
	"slices"
	"strings"

	"muster/schemas/identity"
)

// names derives the parts of a name from each other.
func names(firstName *string, middle string, last, full *string) Fields {
	if *full == "" {
		if *firstName == "" || *last == "" {
			return 0
		}
		if *full = join(strings.TrimSpace(*firstName), strings.TrimSpace(middle),
			strings.TrimSpace(*last)); *full == "" {
			return 0
		}
		return FullName
	}
	if *firstName != "" && *last != "" {
		return 0
	}
	given, family := identity.DivideName(*full)
	if tail, ok := strings.CutPrefix(*full, given+" "+middle+" "); ok && given != "" && middle != "" {
		family = tail
	}
	var fields Fields
	switch {
	case *firstName == "" && *last == "":
	case *firstName != "": // The family name follows the given name.
		family = remainder(*full, *firstName, family, strings.HasPrefix)
		given = ""
	default:
		given = remainder(*full, *last, given, strings.HasSuffix)
		family = ""
	}
	if *firstName == "" && given != "" {
		*firstName = given
		fields |= FirstName
	}
	if *last == "" && family != "" {
		*last = family
		fields |= LastName
	}
	return fields
}

// join joins the parts of a name that are present.
func join(parts ...string) string {
	if identity.IsCJK(strings.Join(parts, "")) && len(parts) == 3 && parts[1] == "" {
		return parts[2] + parts[0] // family name first, without a space
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// remainder returns part if the name has the known part in the required position and part is not in it.
func remainder(full, known, part string, has func(s, affix string) bool) string {
	if part == "" || !has(strings.ToLower(strings.Join(strings.Fields(full), " ")), strings.ToLower(known)) ||
		strings.Contains(" "+strings.ToLower(known)+" ", " "+strings.ToLower(part)+" ") {
		return ""
	}
	return part
}
