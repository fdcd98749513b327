/// Sessions whose refreshes ask for no scopes: the server has refused those that the login has granted, and does not say which ones it
/// gives without being asked. Each is known by a hash of its refresh tokens.
struct ScopelessSessions {
    /// Of an identity. Of more the ones that have refreshed earliest are forgotten, and asked for their scopes once more.
    private static let countMax = 1024

    private var marks: Set<[UInt8]> = []
    /// In the order in which they came.
    private var order: [[UInt8]] = []

    func contains(_ mark: [UInt8]?) -> Bool { mark.map(marks.contains) ?? false }

    mutating func insert(_ mark: [UInt8]?) {
        guard let mark, marks.insert(mark).inserted else { return }
        order.append(mark)
        if order.count > Self.countMax { marks.remove(order.removeFirst()) }
    }
}
