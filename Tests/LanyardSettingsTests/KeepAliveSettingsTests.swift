import LanyardSettings
import Testing

/// Probes of quiet TCP connections.
@Suite struct KeepAliveSettingsTests {
    @Test("a peer that has vanished is noticed within a minute by default, and an outage of 20 s ends nothing")
    func defaults() throws {
        let settings = KeepAliveSettings()
        let probing = settings.interval * settings.probesMax
        #expect(try #require(settings.idle) + probing < .seconds(60))
        #expect(probing > .seconds(20))
    }
}
