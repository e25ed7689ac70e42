import networkx as nx
graph = nx.Graph([(1, 2, {"weight": 4}), (2, 3, {"weight": 1}), (1, 3, {"weight": 7})])
print(nx.shortest_path(graph, 1, 3, weight="weight"), sorted(nx.pagerank(graph)), nx.is_connected(graph), nx.density(graph))
print(sorted(nx.minimum_spanning_tree(graph).edges), nx.diameter(nx.path_graph(5)))
