import LanyardFoundations

/// A value for each user that has one, by the number of its index.
///
/// A pool that serves one of ten thousand users has one place in it, not ten thousand. A user keeps its place. Numbers are consecutive, so
/// the number itself is a good hash.
struct UserTable<Value> {
    private struct Slot {
        /// Negative: the slot is free.
        var number: Int
        var value: Value
    }

    /// A power of two, at most half of them taken.
    private var slots: [Slot] = []
    private var count = 0
    private let empty: Value

    /// - Parameter empty: the value of a user that has none yet.
    init(empty: Value) { self.empty = empty }

    var isEmpty: Bool { count == 0 }

    /// The place of the user's value; nil: it has none.
    @inline(__always)
    func place(of user: UserIndex) -> Int? {
        guard count > 0 else { return nil }
        let place = search(user.number)
        return slots[place].number == user.number ? place : nil
    }

    /// The same, which is made if there is none.
    mutating func placeMaking(for user: UserIndex) -> Int {
        if let place = place(of: user) { return place }
        if 2 * (count + 1) > slots.count { grow() }
        let place = search(user.number)
        slots[place].number = user.number
        count += 1
        return place
    }

    /// The value at a place that the table has given since the latest `placeMaking`.
    subscript(place: Int) -> Value {
        @inline(__always) get { slots[place].value }
        @inline(__always) _modify { yield &slots[place].value }
    }

    /// The place of the number, or the free one where it would be.
    @inline(__always)
    private func search(_ number: Int) -> Int {
        let mask = slots.count - 1
        var place = number & mask
        while slots[place].number != number, slots[place].number >= 0 { place = (place + 1) & mask }
        return place
    }

    private mutating func grow() {
        let taken = slots.filter { $0.number >= 0 }
        slots = Array(repeating: Slot(number: -1, value: empty), count: max(2, 2 * slots.count))
        for slot in taken { slots[search(slot.number)] = slot }
    }
}
