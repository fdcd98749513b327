import LanyardFoundations
import Testing

@Suite struct UserNamesTests {
    @Test("the first names have the first places, in their order")
    func first() {
        let names = UserNames(["alice", "bob"])
        #expect(names.count == 2)
        #expect(names.index(of: "bob") == UserIndex(1))
        #expect(names[UserIndex(0)] == "alice")
    }

    @Test("a new name gets the next place, and keeps it however often it is asked for")
    func later() {
        let names = UserNames(["alice"])
        let carol = names.index(of: "carol")
        #expect(carol == UserIndex(1))
        #expect(names.index(of: "dave") == UserIndex(2))
        #expect(names.index(of: "carol") == carol)
        #expect(names[carol] == "carol")
        #expect(names.count == 3)
    }

    @Test("a reserved name that is given back leaves its place to the next one, however many there were")
    func reserved() {
        let names = UserNames(["alice"])
        for number in 0..<1000 {
            let user = names.reserveIndex(of: "refused-\(number)")
            #expect(user == UserIndex(1))
            #expect(names[user] == "refused-\(number)")
            names.release(user)
        }
        #expect(names.count == 2)
        #expect(names.index(of: "bob") == UserIndex(1))
    }

    @Test("a name that is known for good keeps its place, also when it is reserved or given back")
    func kept() {
        let names = UserNames(["alice"])
        let bob = names.reserveIndex(of: "bob")
        #expect(names.index(of: "bob") == bob)
        names.release(bob)
        #expect(names[bob] == "bob")
        #expect(names.reserveIndex(of: "alice") == UserIndex(0))
        names.release(UserIndex(0))
        #expect(names[UserIndex(0)] == "alice")
        #expect(names.reserveIndex(of: "carol") == UserIndex(2))
    }

    @Test("a renewed name keeps its place and has another index from then on")
    func renewed() {
        let names = UserNames(["alice", "bob"])
        let alice = names.index(of: "alice")
        let next = names.renew("alice")
        #expect(next != alice && next.hasName(of: alice) && names[next] == "alice" && names[alice] == "alice")
        #expect(names.index(of: "alice") == next && names.reserveIndex(of: "alice") == next)
        #expect(names.index(of: "bob") == UserIndex(1))
        let carol = names.reserveIndex(of: "carol")
        let later = names.renew("carol")
        names.release(later)
        #expect(later != carol && names.index(of: "carol") == later)
        #expect(names.count == 3)
    }

    @Test("names that many threads bring at once get one place each")
    func together() async {
        let names = UserNames()
        let places = await withTaskGroup(of: [UserIndex].self) { group in
            for _ in 0..<8 { group.addTask { (0..<100).map { names.index(of: "user-\($0)") } } }
            return await group.reduce(into: [[UserIndex]]()) { $0.append($1) }
        }
        #expect(Set(places).count == 1)
        #expect(Set(places[0]).count == 100)
        #expect(names.count == 100)
    }
}
