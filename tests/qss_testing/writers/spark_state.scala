// A query in Scala for spark-shell: STATE_QUERY with STATE_CHECKPOINT over the files of STATE_SOURCE.
import java.sql.Timestamp
import org.apache.spark.sql.{Dataset, Encoders}
import org.apache.spark.sql.streaming._
import spark.implicits._

case class Flight(k: String, n: Long, d: Double)
case class Last(n: Long, d: Double, note: Option[String], when: Timestamp)
case class Kept(n: Long, texts: Seq[String])

class Delays extends StatefulProcessor[String, Flight, String] {
  @transient private var last: ValueState[Last] = _
  @transient private var count: ValueState[Long] = _
  @transient private var delays: ListState[Double] = _
  @transient private var ports: MapState[String, Last] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    val never = TTLConfig.NONE
    last = getHandle.getValueState("last", Encoders.product[Last], never)
    count = getHandle.getValueState("count", Encoders.scalaLong, never)
    delays = getHandle.getListState("delays", Encoders.scalaDouble, never)
    ports = getHandle.getMapState("ports", Encoders.STRING, Encoders.product[Last], never)
  }

  override def handleInputRows(key: String, rows: Iterator[Flight], timers: TimerValues): Iterator[String] = {
    rows.foreach { row =>
      val note = if (row.n % 2 == 0) Some("x" + row.n) else None
      val now = Last(row.n, row.d, note, new Timestamp(row.n * 1000))
      last.update(now)
      count.update((if (count.exists()) count.get() else 0L) + 1)
      delays.appendValue(row.d)
      ports.updateValue("p" + row.n % 3, now)
    }
    Iterator(key)
  }
}

object Groups extends Serializable {
  val fold: (String, Iterator[Flight], GroupState[Kept]) => String = (key, rows, state) => {
    val held = state.getOption.getOrElse(Kept(0, Seq()))
    val seen = rows.toSeq
    state.update(Kept(held.n + seen.size, (held.texts ++ seen.map("t" + _.n)).takeRight(5)))
    key
  }
}

object Job {
  def run(): Unit = {
    val files = spark.readStream.schema("k string, n long, d double").option("maxFilesPerTrigger", 1)
    val flights = files.json(sys.env("STATE_SOURCE")).as[Flight].groupByKey(_.k)
    val keys: Dataset[String] = sys.env("STATE_QUERY") match {
      case "scala-processor" => flights.transformWithState(new Delays(), TimeMode.None(), OutputMode.Update())
      case "scala-groups" => flights.mapGroupsWithState(GroupStateTimeout.NoTimeout)(Groups.fold)
    }
    val writer = keys.writeStream.format("noop").outputMode("update").trigger(Trigger.AvailableNow())
    writer.option("checkpointLocation", sys.env("STATE_CHECKPOINT")).start().awaitTermination()
  }
}
Job.run()
System.exit(0)
