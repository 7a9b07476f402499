package oracle

// Render renders section 4.1.
func (c *Company) Render() Object {
	sh := shaper{}
	rec := decodeObject(c.raw)
	dst := Object{}
	pick(dst, rec, "company_id", "network_slug", "network_id")
	putInstant(dst, "last_updated", rec, "last_updated")

	profileNames := []string{"name", "tagline", "description", "industry", "company_size", "website", "phone", "employees", "founded"}
	profile := Object{}
	src := object(rec["profile"])
	pick(profile, src, profileNames...)
	putDeepList(profile, "specialties", present(src["specialties"]))
	sh.unknown(profile, src, profileNames, []string{"specialties", "specialties_count"})
	put(dst, "profile", profile)

	headquarterNames := []string{"city", "region", "country", "postal_code", "line1", "line2"}
	if hq := sh.plain(rec["headquarters"], headquarterNames); len(hq) > 0 {
		for _, n := range headquarterNames {
			if hq[n] == nil {
				hq[n] = nil
			}
		}
		dst["headquarters"] = hq
	}
	put(dst, "images", sh.plain(rec["images"], []string{"logo", "cover"}))
	sh.unknown(dst, rec, []string{"company_id", "network_slug", "network_id", "profile", "headquarters", "images", "last_updated"}, topReserved)
	return dst
}
