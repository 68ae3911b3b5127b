"""The order of EFFECTS transactions as spec/scheduling.md gives it, for check.py. Written from the text alone: it
compares pairs of transactions and follows paths where the implementation counts, and is slow.
"""

LIMITS = {"accesses": 524288, "cut_steps": 786432, "cycles": 64, "cycle_steps": 32768, "chance_steps": 524288}
FIVE, EIGHTH, NAMED = 5, 8, 8


class Block:
    def __init__(self, transactions):
        self.sees = [set(t["sees"]) for t in transactions]
        self.writes = [set(t["writes"]) for t in transactions]
        self.touches = [sees | writes for sees, writes in zip(self.sees, self.writes)]

    def before(self, t, u):
        return t != u and not self.sees[t].isdisjoint(self.writes[u])

    def mattering(self, some):
        """The places that matter among some transactions, each with those that touch it."""
        at = {}
        for t in some:
            for place in self.touches[t]:
                at.setdefault(place, []).append(t)
        return {p: ts for p, ts in at.items() if len(ts) > 1 and any(p in self.writes[t] for t in ts)}


def reaching(edges, start):
    """All that a path of one edge at least leads to from `start`."""
    found, todo = set(), [start]
    while todo:
        t = todo.pop()
        for u in edges[t]:
            if u not in found:
                found.add(u)
                todo.append(u)
    return found


def graph(block, some, at):
    """By transaction, those that it comes before, and those that come before it."""
    after = {t: set() for t in some}
    for place, ts in at.items():
        writers = [t for t in ts if place in block.writes[t]]
        for t in ts:
            if place in block.sees[t]:
                after[t].update(u for u in writers if u != t)
    before = {t: set() for t in some}
    for t, us in after.items():
        for u in us:
            before[u].add(t)
    return after, before


def groups_of(after, before):
    groups, done = [], set()
    for t in sorted(after):
        if t not in done:
            group = reaching(after, t) & reaching(before, t)
            done |= group
            if group:
                groups.append(sorted(group))
    return groups


def cycles_of(after, group, most):
    """At most so many cycles: paths from their smallest member through larger ones that can lead back."""
    found = []
    for start in group:
        inside = {t for t in group if t >= start}
        stack = [(start, [start])]
        while stack:
            t, path = stack.pop()
            for u in after[t] & inside:
                if u == start:
                    found.append(path)
                    if len(found) == most:
                        return found
                elif u not in path and leads_back(after, inside - set(path), u, start):
                    stack.append((u, path + [u]))
    return found


def leads_back(after, allowed, t, start):
    seen, todo = {t}, [t]
    while todo:
        t = todo.pop()
        if start in after[t]:
            return True
        new = (after[t] & allowed) - seen
        seen |= new
        todo += new
    return False


def cut(block, admitted, limits):
    removed, steps, queue = set(), 0, [admitted]
    while queue:
        some = queue.pop(0)
        at = block.mattering(some)
        steps += sum(map(len, at.values()))
        if steps > limits["cut_steps"]:
            kept_writes = set()
            for t in some:
                if block.sees[t] & kept_writes:
                    removed.add(t)
                else:
                    kept_writes |= block.writes[t]
            continue
        after, before = graph(block, some, at)
        for group in groups_of(after, before):
            gone, more = cut_group(block, group, after, limits, steps <= limits["cut_steps"])
            steps += more
            removed |= gone[0]
            if gone[1] is not None:
                queue.append(gone[1])
    return removed, steps


def cut_group(block, group, after, limits, search):
    """Those removed, and the rest if it joins the queue; the steps."""
    degree, conflicts, updates = dict.fromkeys(group, 0), 0, 0
    for place, ts in block.mattering(group).items():
        updates = max(updates, sum(place in block.sees[t] and place in block.writes[t] for t in ts))
        for t in ts:
            for u in ts:
                if t != u and place in block.sees[t] and place in block.writes[u]:
                    conflicts += 1
                    degree[t] += 1
                    degree[u] += 1
    size = len(group) + conflicts
    allowed = min(limits["cycles"], limits["cycle_steps"] // size)
    steps = 0
    if search and conflicts + 1 <= len(group) + allowed and updates < FIVE:
        cycles = cycles_of(after, group, allowed + 1)
        steps = size * len(cycles)
        if len(cycles) <= allowed:
            return (in_most_cycles(cycles), None), steps
    ranked = sorted(group, key=lambda t: (-degree[t], t))
    count = -(-len(group) // EIGHTH)
    return (set(ranked[:count]), sorted(ranked[count:])), steps


def in_most_cycles(cycles):
    removed = set()
    while cycles:
        counts = {}
        for cycle in cycles:
            for t in cycle:
                counts[t] = counts.get(t, 0) + 1
        most = min(counts, key=lambda t: (-counts[t], t))
        removed.add(most)
        cycles = [cycle for cycle in cycles if most not in cycle]
    return removed


def second_chances(block, admitted, removed, limits):
    kept, victims, steps = set(admitted) - removed, {}, 0
    at = block.mattering(admitted)
    accesses = {t: [p for p in block.touches[t] if p in at] for t in admitted}
    for v in sorted(removed):
        preceded = any(block.before(t, v) for t in kept)
        followed = [t for t in kept if block.before(v, t)]
        if not preceded or not followed:
            kept.add(v)
            continue
        shared = [(p, t) for t in kept for p in block.sees[v] & block.writes[v] & block.sees[t] & block.writes[t]]
        if shared:
            victims[v] = {"place": min(shared)[0], "others": [min(shared)[1]]}
        elif steps >= limits["chance_steps"]:
            victims[v] = {"place": min(p for t in followed for p in block.sees[v] & block.writes[t])}
        else:
            others, more = shortest_cycle(block, v, kept, at, accesses)
            steps += more
            if others is None:
                kept.add(v)
            else:
                victims[v] = {"place": min(block.sees[v] & block.writes[others[0]]), "others": others[:NAMED]}
    return kept, victims, steps


def shortest_cycle(block, v, kept, at, accesses):
    steps = sum(len(at[p]) for p in accesses[v] if p in block.sees[v])
    lists, written = {v: []}, set()  # by transaction, the smallest list of those that follow it up to v
    layer = {v}
    while layer:
        steps += sum(len(accesses[t]) for t in layer)
        new = {p for t in layer for p in block.writes[t] if p in at} - written
        steps += sum(len(at[p]) for p in new)
        written |= new
        found = {}
        for t in kept - set(lists):
            ways = [[t] + lists[u] for u in layer if block.before(t, u)]
            if ways:
                found[t] = min(ways)
        lists.update(found)
        layer = set(found)
        closing = [found[t] for t in layer if block.before(v, t)]
        if closing:
            return min(closing), steps
    return None, steps


def turns(block, kept):
    order, left = [], sorted(kept)
    overwrites = {t: block.writes[t] - block.sees[t] for t in left}
    while left:
        free = [u for u in left if not any(block.before(t, u) for t in left)]
        in_turn = [u for u in free if not any(t < u and overwrites[t] & overwrites[u] for t in left)]
        order.append(min(in_turn or free))
        left.remove(order[-1])
    return order


def reorder(transactions, limits):
    limits = LIMITS | limits
    block, admitted, left, victims = Block(transactions), [], limits["accesses"], {}
    for t, one in enumerate(transactions):
        count = len(one["sees"]) + len(one["writes"])
        if count <= left:
            left -= count
            admitted.append(t)
        else:
            victims[t] = {"excess": True}
    removed, cut_steps = cut(block, admitted, limits)
    kept, others, chance_steps = second_chances(block, admitted, removed, limits)
    victims |= others
    return {"order": turns(block, kept), "victims": [{"transaction": t, **victims[t]} for t in sorted(victims)],
            "cut_steps": cut_steps, "chance_steps": chance_steps}
