import LanyardAdmin
import LanyardFoundations
import Testing

@testable import Lanyard

/// When the end of a certificate is logged.
@Suite struct CertificateStepsTests {
    @Test(
        "14, 7 and 1 days before the end and at it, once each; a late start has one; a renewed certificate begins anew")
    func steps() {
        var steps = CertificateSteps()
        func due(_ daysLeft: Double, end: Int64 = 100 * 86_400) -> Int {
            let now = WallTime(seconds: end - Int64(daysLeft * 86_400))
            let certificate = ProgramConditions.Certificate(
                owner: "listener a", file: "/c", expiresAt: WallTime(seconds: end))
            return steps.collect([certificate], at: now).count
        }
        #expect(due(20) == 0 && due(14.01) == 0 && due(14) == 1 && due(13.9) == 0)
        #expect(due(6.9) == 1 && due(2) == 0 && due(0.9) == 1 && due(0.1) == 0 && due(-0.1) == 1 && due(-5) == 0)
        #expect(due(90, end: 200 * 86_400) == 0 && due(10, end: 200 * 86_400) == 1)
        // A clock that was set back does not repeat it.
        #expect(due(15, end: 200 * 86_400) == 0 && due(9, end: 200 * 86_400) == 0)
        var late = CertificateSteps()
        let certificate = ProgramConditions.Certificate(owner: "route r", file: nil, expiresAt: WallTime(seconds: 1000))
        #expect(late.collect([certificate], at: WallTime(seconds: 900)) == [certificate])
        #expect(late.collect([certificate], at: WallTime(seconds: 901)) == [])
    }

    @Test("two servers of one upstream, whose certificates end at different times, are warned of once each")
    func servers() {
        var steps = CertificateSteps()
        let ends: [Int64] = [100, 105].map { $0 * 86_400 }
        var warned: [Int64] = []
        // The servers respond by turns, for an hour each, in the last 20 days.
        for hour in 0..<Int64(20 * 24) {
            let end = ends[Int(hour % 2)]
            let certificate = ProgramConditions.Certificate(
                owner: "the upstream of route r", file: nil, expiresAt: WallTime(seconds: end))
            let now = WallTime(seconds: 80 * 86_400 + hour * 3600)
            warned += steps.collect([certificate], at: now).map(\.expiresAt.seconds)
        }
        // Of the first one 14, 7 and 1 days before the end, of the second one 14 and 7 days.
        #expect(warned.count { $0 == ends[0] } == 3 && warned.count { $0 == ends[1] } == 2, "\(warned)")
    }
}
