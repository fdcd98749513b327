import TestSupport
import Testing

/// Every interleaving of what shards do with the connection slots of one upstream, in small cases. `LongSlotModelTests` has larger ones.
@Suite struct SlotModelTests {
    @Test(
        "no request waits while a slot is free or a connection is idle, however the shards' operations interleave",
        arguments: [(1, [1, 1], 0), (1, [0, 1], 1), (2, [0, 1, 1], 1)])
    func noLostWakeUp(_ slots: Int, _ arrivals: [Int], _ idle: Int) {
        let search = SlotModel(slots: slots, arrivals: arrivals, idle: idle).search()
        #expect(search.fault == nil, "\(search.trace.joined(separator: "\n"))")
        #expect(search.states > 20)
    }

    @Test("the same search finds each mistake", arguments: SlotModel.Mistake.allCases)
    func mistakes(_ mistake: SlotModel.Mistake) {
        let model =
            switch mistake {
            case .asksForIdleOnce, .announcesRoomOnly:
                SlotModel(slots: 2, arrivals: [0, 1, 1], idle: 2, mistake: mistake)
            case .addsThenSubtracts: SlotModel(slots: 1, arrivals: [2, 2], mistake: mistake)
            case .sleepsAfterCounting, .looksBeforeFreeing, .looksBeforeIdling, .ignoresNews, .announcesNothing:
                SlotModel(slots: 1, arrivals: [1, 1], mistake: mistake)
            }
        #expect(model.search().fault != nil)
    }
}

/// As `SlotModelTests`: some hundred thousand states each.
@Suite struct LongSlotModelTests {
    @Test(
        "no request waits while a slot is free or a connection is idle, in larger cases",
        arguments: [(1, [2, 2], 0, 1), (2, [2, 2], 0, 1), (1, [1, 1, 1], 0, 1), (2, [0, 1, 1], 2, 0)])
    func noLostWakeUp(_ slots: Int, _ arrivals: [Int], _ idle: Int, _ cancels: Int) {
        let search = SlotModel(slots: slots, arrivals: arrivals, idle: idle, cancels: cancels).search()
        #expect(search.fault == nil, "\(search.trace.joined(separator: "\n"))")
        #expect(search.states > 1000)
    }
}
