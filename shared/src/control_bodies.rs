//! Bodies of the messages that say how a device does and tell it what to do, field
//! by field. None of them ever changes (a changed body is a new kind). Checks what
//! the public types promise; anything else is `None`.

use heapless::Vec;

use crate::fields::{Reader, Writer};
use crate::ids::{BootId, ChannelNo};
use crate::limits::{
    CHANNELS_MAX, CMD_ARGS_BYTES_MAX, CMD_RESULT_BYTES_MAX, CONFIG_CHUNK_BYTES_MAX,
};
use crate::message::{
    Cmd, CmdResult, CmdStatus, ConfigChunk, Health, Log, Operation, ReceiveCounts,
};

pub(crate) fn write_health(health: &Health, out: &mut Writer<'_>) {
    let received = &health.received;
    let numbers = [
        health.boot.0.into(),
        health.config.into(),
        health.config_refused.into(),
        health.produced,
        health.acked,
        health.waiting.into(),
    ];
    let counts = [
        health.suppressed,
        health.ring_high.into(),
        received.ok.into(),
        received.cobs_bad.into(),
        received.crc_bad.into(),
        received.overlong.into(),
        received.unknown_kind.into(),
        received.body_bad.into(),
        health.rx_dropped.into(),
        health.resends.into(),
        health.missed.into(),
        health.log_dropped.into(),
        health.stack_free.into(),
        health.errors.len() as u64,
    ];
    let all = numbers.iter().chain(&health.gaps).chain(&counts);
    all.for_each(|number| out.varint(*number));
    health
        .errors
        .iter()
        .for_each(|count| out.varint(u64::from(*count)));
}

pub(crate) fn read_health(body: &mut Reader<'_>) -> Option<Health> {
    let health = Health {
        boot: BootId(body.u32()?),
        config: body.u32()?,
        config_refused: body.u32()?,
        produced: body.u64()?,
        acked: body.u64()?,
        waiting: body.u32()?,
        gaps: [body.u64()?, body.u64()?, body.u64()?, body.u64()?],
        suppressed: body.u64()?,
        ring_high: body.u32()?,
        received: ReceiveCounts {
            ok: body.u32()?,
            cobs_bad: body.u32()?,
            crc_bad: body.u32()?,
            overlong: body.u32()?,
            unknown_kind: body.u32()?,
            body_bad: body.u32()?,
        },
        rx_dropped: body.u32()?,
        resends: body.u32()?,
        missed: body.u32()?,
        log_dropped: body.u32()?,
        stack_free: body.u32()?,
        errors: read_errors(body)?,
    };
    health.is_valid().then_some(health)
}

fn read_errors(body: &mut Reader<'_>) -> Option<Vec<u16, CHANNELS_MAX>> {
    let mut errors = Vec::new();
    for _ in 0..body.u64()? {
        errors.push(body.u16()?).ok()?;
    }
    Some(errors)
}

pub(crate) fn write_result(result: &CmdResult, out: &mut Writer<'_>) {
    out.varint(result.id.into());
    out.byte(result.status as u8);
    out.counted(&result.payload);
}

pub(crate) fn read_result(body: &mut Reader<'_>) -> Option<CmdResult> {
    Some(CmdResult {
        id: body.u32()?,
        status: CmdStatus::from_byte(body.byte()?)?,
        payload: Vec::from_slice(body.counted(CMD_RESULT_BYTES_MAX)?).ok()?,
    })
}

pub(crate) fn read_log<'a>(body: &mut Reader<'a>) -> Option<Log<'a>> {
    let log = Log(body.all());
    log.is_valid().then_some(log)
}

pub(crate) fn write_cmd(cmd: &Cmd, out: &mut Writer<'_>) {
    let mut args = [0; CMD_ARGS_BYTES_MAX];
    let mut writer = Writer::new(&mut args);
    match cmd.operation {
        Operation::SetPeriod {
            channel,
            period_us: figure,
        }
        | Operation::SetThreshold {
            channel,
            threshold: figure,
        } => {
            writer.byte(channel.0);
            writer.varint(figure.into());
        }
        Operation::Identify { seconds } => writer.byte(seconds),
        Operation::Reboot { boot } => writer.varint(boot.0.into()),
        Operation::Unknown { .. } => {}
    }
    let used = writer.finish().expect("six bytes at most");
    out.varint(cmd.id.into());
    out.byte(cmd.operation.op());
    out.counted(&args[..used]);
}

pub(crate) fn read_cmd(body: &mut Reader<'_>) -> Option<Cmd> {
    let id = body.u32()?;
    let op = body.byte()?;
    let mut args = Reader::new(body.counted(CMD_ARGS_BYTES_MAX)?);
    let operation = match op {
        0 => Operation::SetPeriod {
            channel: ChannelNo(args.byte()?),
            period_us: args.u32()?,
        },
        1 => Operation::SetThreshold {
            channel: ChannelNo(args.byte()?),
            threshold: args.u32()?,
        },
        2 => Operation::Identify {
            seconds: args.byte()?,
        },
        3 => Operation::Reboot {
            boot: BootId(args.u32()?),
        },
        op => {
            args.all();
            Operation::Unknown { op }
        }
    };
    (args.left() == 0).then_some(Cmd { id, operation })
}

pub(crate) fn write_chunk(chunk: &ConfigChunk<'_>, out: &mut Writer<'_>) {
    out.varint(chunk.version.into());
    out.byte(chunk.chunk);
    out.byte(chunk.chunks);
    out.varint(chunk.crc.into());
    out.counted(chunk.bytes);
}

pub(crate) fn read_chunk<'a>(body: &mut Reader<'a>) -> Option<ConfigChunk<'a>> {
    let chunk = ConfigChunk {
        version: body.u32()?,
        chunk: body.byte()?,
        chunks: body.byte()?,
        crc: body.u32()?,
        bytes: body.counted(CONFIG_CHUNK_BYTES_MAX)?,
    };
    chunk.is_valid().then_some(chunk)
}
