package algebra

// Walk calls visit for all nodes inside a node, then for the node itself.
func Walk(n Node, visit func(Node)) {
	_, _ = Rewrite(n, func(m Node) (Node, error) {
		visit(m)
		return m, nil
	})
}

// Rewrite rebuilds a node bottom-up: change is called with each node after its inner nodes were replaced.
func Rewrite(n Node, change func(Node) (Node, error)) (Node, error) {
	list := func(nodes []Node) ([]Node, error) {
		if nodes == nil {
			return nil, nil
		}
		out := make([]Node, len(nodes))
		for i, m := range nodes {
			var err error
			if out[i], err = Rewrite(m, change); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	var err error
	switch m := n.(type) {
	case Bool:
		for _, part := range []*[]Node{&m.Must, &m.Filter, &m.Should, &m.MustNot} {
			if *part, err = list(*part); err != nil {
				return nil, err
			}
		}
		n = m
	case DisMax:
		if m.Nodes, err = list(m.Nodes); err != nil {
			return nil, err
		}
		n = m
	case Boost:
		if m.Node, err = Rewrite(m.Node, change); err != nil {
			return nil, err
		}
		n = m
	case Constant:
		if m.Node, err = Rewrite(m.Node, change); err != nil {
			return nil, err
		}
		n = m
	case Nested:
		if m.Node, err = Rewrite(m.Node, change); err != nil {
			return nil, err
		}
		n = m
	case Function:
		if m.Node, err = Rewrite(m.Node, change); err != nil {
			return nil, err
		}
		functions := make([]Factor, len(m.Functions))
		for i, f := range m.Functions {
			if f.Filter != nil {
				if f.Filter, err = Rewrite(f.Filter, change); err != nil {
					return nil, err
				}
			}
			functions[i] = f
		}
		m.Functions = functions
		n = m
	}
	return change(n)
}
